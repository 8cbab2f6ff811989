#include "heddle/core/contract/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "heddle/core/base/error.h"

namespace heddle {

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

}  // namespace heddle
