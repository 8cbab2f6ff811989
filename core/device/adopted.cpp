#include "heddle/core/device/adopted.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/contract/host_memory.h"
#include "heddle/core/device/event.h"
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
  // A device that is lost uses nothing any more. A write of the host's may still be on its way: what is read comes
  // after it.
  void wait() noexcept {
    try {
      if (last_use != Ticket::none) return device().wait(last_use);
      uint32_t word = 0;
      const Binding here = binding();
      if (version > 0) device().lock().device.read(here.buffer, here.offset, &word, std::min<uint64_t>(bytes(), 4));
    } catch (const DeviceError&) {
    }
  }

  Callable<void()> release_;
};

HostMemory* host_memory(Device& device) { return dynamic_cast<HostMemory*>(&device); }

}  // namespace

bool has_host_memory(DeviceContext& context) {
  const DeviceContext::Locked locked = context.lock();
  HostMemory* const host = host_memory(locked.device);
  return host != nullptr && host->shares_memory();
}

Adopted adopt_memory(DeviceContext& context, void* memory, uint64_t bytes, HostUse use, Callable<void()> release) {
  const DeviceContext::Locked locked = context.lock();
  HostMemory* const host = host_memory(locked.device);
  if (host == nullptr || !host->shares_memory()) return {};
  const uint64_t unit = host->adopted_unit(use), alignment = context.caps().buffer_alignment;
  const uint64_t before = reinterpret_cast<uintptr_t>(memory) % unit;
  const uint64_t whole = round_up(before + bytes, unit);
  const BufferId buffer = host->adopt(static_cast<char*>(memory) - before, whole, use);
  if (buffer == BufferId::none) return {};
  const uint64_t skip = before % alignment;
  const Allocation allocation{buffer, before - skip, skip + bytes, skip + bytes};
  try {
    return {std::make_shared<AdoptedStorage>(context, allocation, std::move(release)), skip};
  } catch (...) {
    locked.device.free(buffer);
    throw;
  }
}

StoragePtr adopt_constant(DeviceContext& context, const void* memory, uint64_t bytes, Callable<void()> release) {
  const DeviceContext::Locked locked = context.lock();
  auto* const constant = dynamic_cast<ConstantMemory*>(&locked.device);
  const BufferId buffer = constant != nullptr ? constant->adopt_constant(memory, bytes) : BufferId::none;
  if (buffer == BufferId::none) return nullptr;
  return std::make_shared<AdoptedStorage>(context, Allocation{buffer, 0, bytes, bytes}, std::move(release));
}

namespace {

void* address_of(Storage& storage) {
  const DeviceContext::Locked locked = storage.device().lock();
  HostMemory* const host = host_memory(locked.device);
  void* const first = host != nullptr ? host->host_address(storage.binding().buffer) : nullptr;
  return first != nullptr ? static_cast<char*>(first) + storage.binding().offset : nullptr;
}

}  // namespace

void* host_address(Storage& storage) {
  storage.device().synchronize();
  return address_of(storage);
}

// What was written and not submitted with may be on its way yet.
const void* host_value(Storage& storage) {
  if (storage.last_use == Ticket::none) return nullptr;
  Event(storage.device(), storage.last_use).wait();
  return address_of(storage);
}

void note_host_write(Storage& storage) {
  const DeviceContext::Locked locked = storage.device().lock();
  ++storage.version;
}

}  // namespace heddle
