#include "heddle/core/contract/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/slices.h"

namespace heddle {

namespace {

// The number that a text begins with, in any locale; 0 where there is none.
double leading_number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

double timeout_seconds() {
  const char* text = std::getenv("HEDDLE_TIMEOUT");
  const double seconds = text ? leading_number(text) : 0;
  return seconds > 0 ? seconds : 0;
}

std::vector<KernelId> Device::compile_all(std::span<const KernelSource* const> sources) {
  std::vector<KernelId> kernels;
  try {
    for (const KernelSource* source : sources) kernels.push_back(compile(*source));
  } catch (...) {
    for (KernelId kernel : kernels) release(kernel);
    throw;
  }
  return kernels;
}

std::vector<KernelId> Device::load_all(std::span<const KernelBinary* const> binaries) {
  if (binaries.empty()) return {};
  throw DeviceError(fmt::format("[load] kernel {}: this device takes kernels as sources, not as binaries",
                                binaries[0]->signature.name));
}

bool Device::done(Ticket) { return true; }
std::unique_ptr<Waiter> Device::waiter(Ticket) { return nullptr; }

Ticket Device::read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  read(buffer, offset, target, bytes);
  return Ticket::none;
}

Ticket Device::read_in_place(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  return read_later(buffer, offset, target, bytes);
}

void Device::write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket) {
  write(buffer, offset, source, bytes);
}

BufferId Device::alloc_host(uint64_t bytes) { return alloc(bytes); }

double slice_seconds(DeviceClass device_class) {
  if (const char* text = std::getenv("HEDDLE_SLICE_MS")) return std::max(0.0, leading_number(text) * 1e-3);
  return device_class == DeviceClass::cpu ? 0 : 0.2;
}

uint32_t wanted_queues(uint32_t own) {
  constexpr long most = 8;
  const char* text = std::getenv("HEDDLE_QUEUES");
  const long asked = text ? std::strtol(text, nullptr, 10) : 0;
  return asked > 0 ? static_cast<uint32_t>(std::min(asked, most)) : own;
}

std::vector<CommandTime> Device::command_times(Ticket) { return {}; }

std::vector<double> durations(std::span<const CommandTime> times) {
  std::vector<double> seconds;
  for (const CommandTime& time : times) seconds.push_back(time.end - time.start);
  return seconds;
}

std::string_view name_of(DeviceClass c) {
  switch (c) {
    case DeviceClass::cpu:
      return "cpu";
    case DeviceClass::integrated_gpu:
      return "integrated_gpu";
    case DeviceClass::discrete_gpu:
      return "discrete_gpu";
    case DeviceClass::reference:
      return "reference";
    case DeviceClass::null:
      return "null";
  }
  return "unknown";
}

std::string_view name_of(Target t) {
  switch (t) {
    case Target::none:
      return "none";
    case Target::glsl:
      return "glsl";
    case Target::opencl:
      return "opencl";
    case Target::cuda:
      return "cuda";
  }
  return "unknown";
}

}  // namespace heddle
