#include "heddle/core/device/open_contexts.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/core/base/host_epoch.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/ending.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

// Contexts are leaked on purpose: tensors in static objects may outlive any order of destruction that could be chosen,
// and several drivers crash when they are shut down from a static destructor. What they hold goes with the process.
struct Contexts {
  std::mutex mutex;
  std::map<std::string, DeviceContext*, std::less<>> by_id;
  std::atomic<DeviceContext*> chosen{nullptr};
};

Contexts& contexts() {
  static Contexts* const all = new Contexts();
  return *all;
}

std::vector<DeviceContext*> open_contexts() {
  Contexts& all = contexts();
  std::lock_guard lock(all.mutex);
  std::vector<DeviceContext*> open;
  for (const auto& [id, context] : all.by_id) open.push_back(context);
  return open;
}

}  // namespace

void drain_devices() {
  for (DeviceContext* context : open_contexts()) {
    try {
      context->synchronize();
    } catch (...) {  // a lost device has nothing left to finish
    }
  }
}

void while_devices_idle(const std::function<void()>& done) {
  std::vector<DeviceContext::Locked> locks;
  for (DeviceContext* context : open_contexts()) locks.push_back(context->lock());
  done();
}

namespace {

std::string canonical(std::string_view id) {
  return id.find(':') == std::string_view::npos ? std::string(id) + ":0" : std::string(id);
}

}  // namespace

DeviceContext& device(std::string_view id) {
  Contexts& all = contexts();
  std::lock_guard guard(all.mutex);
  if (auto found = all.by_id.find(canonical(id)); found != all.by_id.end()) return *found->second;
  DeviceInfo info;
  std::unique_ptr<Device> opened = Registry::instance().open(id, &info);
  auto same = all.by_id.find(info.id);  // another spelling of an id that is open already, e.g. "opencl:00"
  if (same != all.by_id.end()) return *same->second;
  static const bool drained = std::atexit(drain_devices) == 0;
  static_cast<void>(drained);
  ending::at_end(drain_devices, while_devices_idle);
  ending::register_thread();
  auto* context = new DeviceContext(std::move(opened), info);
  all.by_id.emplace(info.id, context);
  return *context;
}

DeviceContext& reopen_device(std::string_view id) {
  DeviceContext& old = device(id);
  if (!old.lost()) return old;
  Contexts& all = contexts();
  std::lock_guard guard(all.mutex);
  DeviceInfo info;
  std::unique_ptr<Device> opened = Registry::instance().open(old.id(), &info);
  auto* context = new DeviceContext(std::move(opened), info);
  all.by_id[info.id] = context;  // the old one stays in memory: its tensors refer to it
  DeviceContext* expected = &old;
  all.chosen.compare_exchange_strong(expected, context);
  return *context;
}

DeviceContext& default_device() {
  Contexts& all = contexts();
  if (DeviceContext* known = all.chosen.load(std::memory_order_acquire)) return *known;
  DeviceContext& best = device(Registry::instance().best());
  DeviceContext* expected = nullptr;  // set_default_device of another thread wins
  all.chosen.compare_exchange_strong(expected, &best);
  return *all.chosen.load(std::memory_order_acquire);
}

void set_default_device(std::string_view id) {
  contexts().chosen.store(&device(id), std::memory_order_release);
  trace::host_state_changed();
}

}  // namespace heddle
