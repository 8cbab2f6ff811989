#include "heddle/core/device/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/thread_stack.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/device/plugins.h"

namespace heddle {
namespace {

constexpr int never_chosen = 1000;

// Place of a device in the order of preference of registry.h: kind of machine first, then backend.
int preference(const DeviceInfo& info) {
  int backend = info.backend == "cuda" ? 0 : info.backend == "vulkan" ? 1 : info.backend == "opencl" ? 2 : 3;
  switch (info.caps.device_class) {
    case DeviceClass::discrete_gpu:
      return backend;
    case DeviceClass::integrated_gpu:
      return 10 + backend;
    case DeviceClass::cpu:
      if (info.backend == "opencl") return 20;
      return 21 + backend;
    case DeviceClass::reference:
      return never_chosen;
    case DeviceClass::null:
      return never_chosen + 1;
  }
  return never_chosen;
}

// "vulkan:1" -> ("vulkan", 1); "vulkan" -> ("vulkan", 0). False for any other form.
bool split_id(std::string_view id, std::string& backend, int& index) {
  size_t colon = id.find(':');
  backend = std::string(id.substr(0, colon));
  index = 0;
  if (backend.empty()) return false;
  if (colon == std::string_view::npos) return true;
  const auto number = parse_number<int>(id.substr(colon + 1));
  index = number.value_or(-1);
  return index >= 0;
}

}  // namespace

struct Registry::State {
  std::mutex mutex;
  std::vector<std::unique_ptr<Backend>> backends;  // grows only; a Backend is never removed
  std::vector<DeviceInfo> failures;                // plug-ins that did not load

  std::vector<Backend*> list() {
    std::lock_guard lock(mutex);
    std::vector<Backend*> all;
    for (const auto& backend : backends) all.push_back(backend.get());
    return all;
  }

  Backend* find(std::string_view name) {
    for (Backend* backend : list()) {
      if (backend->name() == name) return backend;
    }
    return nullptr;
  }
};

Registry::Registry() : state_(std::make_unique<State>()) {}

Registry& Registry::instance() {
  // Leaked: devices of its backends live until the process is gone.
  static Registry* const registry = [] {
    raise_thread_stacks();  // before a driver makes its threads
    auto* made = new Registry();
    register_builtin_backends(*made);
    if (const char* folders = std::getenv("HEDDLE_BACKEND_PATH")) made->state_->failures = load_plugins(*made, folders);
    return made;
  }();
  return *registry;
}

void Registry::add(std::unique_ptr<Backend> backend) {
  if (!backend) throw ValueError("[registry] a backend must not be null");
  std::lock_guard lock(state_->mutex);
  for (const auto& known : state_->backends) {
    if (known->name() == backend->name()) {
      throw ValueError(fmt::format("[registry] a backend named '{}' is registered already", backend->name()));
    }
  }
  state_->backends.push_back(std::move(backend));
}

std::vector<DeviceInfo> Registry::devices() {
  std::vector<DeviceInfo> all;
  for (Backend* backend : state_->list()) {
    try {
      for (DeviceInfo& info : backend->enumerate()) all.push_back(std::move(info));
    } catch (const std::exception& error) {  // a plug-in that breaks the rule "never throws" must not hide the others
      DeviceInfo info;
      info.id = std::string(backend->name()) + ":0";
      info.backend = std::string(backend->name());
      info.reason = error.what();
      all.push_back(std::move(info));
    }
  }
  all.insert(all.end(), state_->failures.begin(), state_->failures.end());
  std::stable_sort(all.begin(), all.end(), [](const DeviceInfo& a, const DeviceInfo& b) {
    if (a.available != b.available) return a.available;
    return a.available && preference(a) < preference(b);
  });
  return all;
}

namespace {

std::string known_ids(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (const DeviceInfo& info : devices) {
    if (info.available) text += (text.empty() ? "" : ", ") + info.id;
  }
  for (const DeviceInfo& info : devices) {
    if (!info.available) text += fmt::format("; {}: {}", info.id, info.reason);
  }
  return text;
}

}  // namespace

std::unique_ptr<Device> Registry::open(std::string_view id, DeviceInfo* info) {
  std::string backend_name;
  int index = 0;
  bool well_formed = split_id(id, backend_name, index);
  Backend* backend = well_formed ? state_->find(backend_name) : nullptr;
  if (!backend) {
    for (const DeviceInfo& failed : state_->failures) {
      if (well_formed && failed.id == backend_name)
        throw DeviceUnavailable(fmt::format("[device] {}: {}", id, failed.reason));
    }
    throw DeviceUnavailable(fmt::format("[device] '{}' is no known device; there are {}", id, known_ids(devices())));
  }
  std::vector<DeviceInfo> own = backend->enumerate();
  if (static_cast<size_t>(index) >= own.size()) {
    throw DeviceUnavailable(fmt::format("[device] '{}' does not exist; there are {}", id, known_ids(devices())));
  }
  const DeviceInfo& found = own[static_cast<size_t>(index)];
  if (!found.available)
    throw DeviceUnavailable(fmt::format("[device] {} is not available: {}", found.id, found.reason));
  std::unique_ptr<Device> device = backend->open(index);
  if (info) *info = found;
  return device;
}

std::string Registry::best() {
  if (const char* asked = std::getenv("HEDDLE_DEVICE"); asked && *asked) return asked;
  std::vector<DeviceInfo> all = devices();
  if (!all.empty() && all.front().available && preference(all.front()) < never_chosen) return all.front().id;
  throw DeviceUnavailable(fmt::format(
      "[device] no device can run kernels (reference and null are used only when named): {}", known_ids(all)));
}

}  // namespace heddle
