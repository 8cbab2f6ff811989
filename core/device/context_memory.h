// ContextMemory: the memory of a DeviceContext: its allocator, and what is given back before anybody fails for want of
// memory.
//
// Invariants: a storage gives its memory back under the device's lock, and goes before this does. Errors: OutOfMemory
// with what is in use. Thread safety: all of it is called under the device's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/device/allocator.h"
#include "heddle/core/device/device_cache.h"
#include "heddle/core/device/recent.h"
#include "heddle/core/device/storage.h"

namespace heddle {

enum class Kept : uint8_t;  // core/device/context.h

class ContextMemory {
 public:
  // `id` of that context, `mutex` the device's lock, `recent` what was submitted: all of them outlive this.
  ContextMemory(DeviceContext& context, const std::string& id, std::recursive_mutex& mutex, Device& device,
                const RecentSubmissions& recent);

  // As the functions of DeviceContext.
  StoragePtr allocate(uint64_t bytes);
  std::vector<StoragePtr> allocate_adjacent(const std::vector<uint64_t>& bytes);
  std::vector<StoragePtr> allocate_results(const std::vector<uint64_t>& bytes);
  StoragePtr stage(const void* source, uint64_t bytes);
  MemoryUse use(uint64_t requested) const;
  CachingAllocator& allocator() { return allocator_; }

  DeviceCache* cache(Kept what) const { return caches_[static_cast<size_t>(what)].get(); }
  void keep(Kept what, std::unique_ptr<DeviceCache> cache) { caches_[static_cast<size_t>(what)] = std::move(cache); }
  // Everything that holds storages of this device goes: graphs have recordings, too.
  void forget_all();

 private:
  struct OwnedStorage;
  // take(), and once more after caches gave back what they hold.
  template <class F>
  auto with_memory(uint64_t requested, F&& take);
  void give_back_caches();
  // One of stage() that may be written now; null: there is none.
  StoragePtr staged_before(uint64_t bytes);
  void make_room_to_stage(uint64_t bytes);

  DeviceContext& context_;
  const std::string& id_;
  std::recursive_mutex& mutex_;
  Device& device_;
  const RecentSubmissions& recent_;
  CachingAllocator allocator_;
  std::array<std::unique_ptr<DeviceCache>, 2> caches_;  // by Kept
  std::vector<StoragePtr> staged_;                      // of stage(); oldest use first
};

}  // namespace heddle
