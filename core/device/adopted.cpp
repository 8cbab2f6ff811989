#include "heddle/core/device/adopted.h"

#include <memory>
#include <utility>

#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/contract/host_memory.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/storage.h"

namespace heddle {
namespace {

struct AdoptedStorage final : Storage {
  AdoptedStorage(DeviceContext& context, const Allocation& allocation, Callable<void()> release)
      : Storage(context, allocation), release_(std::move(release)) {}
  ~AdoptedStorage() {
    wait();
    device().lock().device.free(allocation().buffer);
    release_();
  }

 private:
  // A device that is lost uses nothing any more.
  void wait() noexcept {
    try {
      if (last_use != Ticket::none) device().wait(last_use);
    } catch (const DeviceError&) {
    }
  }

  Callable<void()> release_;
};

HostMemory* host_memory(Device& device) { return dynamic_cast<HostMemory*>(&device); }

}  // namespace

bool has_host_memory(DeviceContext& context) { return host_memory(context.lock().device) != nullptr; }

StoragePtr adopt_memory(DeviceContext& context, void* memory, uint64_t bytes, Callable<void()> release) {
  const DeviceContext::Locked locked = context.lock();
  HostMemory* const host = host_memory(locked.device);
  const BufferId buffer = host != nullptr ? host->adopt(memory, bytes) : BufferId::none;
  if (buffer == BufferId::none) return nullptr;
  return std::make_shared<AdoptedStorage>(context, Allocation{buffer, 0, bytes, bytes}, std::move(release));
}

StoragePtr adopt_constant(DeviceContext& context, const void* memory, uint64_t bytes, Callable<void()> release) {
  const DeviceContext::Locked locked = context.lock();
  auto* const constant = dynamic_cast<ConstantMemory*>(&locked.device);
  const BufferId buffer = constant != nullptr ? constant->adopt_constant(memory, bytes) : BufferId::none;
  if (buffer == BufferId::none) return nullptr;
  return std::make_shared<AdoptedStorage>(context, Allocation{buffer, 0, bytes, bytes}, std::move(release));
}

void* host_address(Storage& storage) {
  storage.device().synchronize();
  const DeviceContext::Locked locked = storage.device().lock();
  HostMemory* const host = host_memory(locked.device);
  void* const first = host != nullptr ? host->host_address(storage.binding().buffer) : nullptr;
  return first != nullptr ? static_cast<char*>(first) + storage.binding().offset : nullptr;
}

}  // namespace heddle
