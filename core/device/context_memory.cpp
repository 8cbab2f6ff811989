#include "heddle/core/device/context_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/device/ending.h"

namespace heddle {

// Its memory goes back with it.
struct ContextMemory::OwnedStorage final : Storage {
  OwnedStorage(ContextMemory& memory, const Allocation& allocation)
      : Storage(memory.context_, allocation), memory_(memory) {}
  ~OwnedStorage() {
    const ending::Guard guard(memory_.mutex_);
    memory_.allocator_.release(allocation());
  }

 private:
  ContextMemory& memory_;
};

ContextMemory::ContextMemory(DeviceContext& context, const std::string& id, std::recursive_mutex& mutex, Device& device,
                             const RecentSubmissions& recent)
    : context_(context), id_(id), mutex_(mutex), device_(device), recent_(recent), allocator_(device) {}

void ContextMemory::forget_all() {
  staged_.clear();
  for (size_t what = caches_.size(); what > 0; --what) caches_[what - 1].reset();
}

// Compiled graphs keep an arena and tables; what was freed may wait for the queue. All of it is there for the taking
// before anybody fails. The one wait under the lock: memory that others took meanwhile would be missing again.
void ContextMemory::give_back_caches() {
  if (recent_.last() != Ticket::none) device_.wait(recent_.last());
  for (size_t what = caches_.size(); what > 0; --what) {
    if (caches_[what - 1]) caches_[what - 1]->clear();
  }
  staged_.clear();
  allocator_.trim();
}

template <class F>
auto ContextMemory::with_memory(uint64_t requested, F&& take) {
  try {
    return take();
  } catch (const OutOfMemory&) {
    give_back_caches();
  }
  try {
    return take();
  } catch (const OutOfMemory& error) {
    const MemoryUse held = use(requested);
    throw OutOfMemory(fmt::format("{} [{}: {} bytes requested, {} live (of them {} in arenas of steps), {} cached{}; "
                                  "caches were given back before]",
                                  error.what(), id_, held.requested, held.live, held.arena, held.cached,
                                  held.device ? fmt::format(", {} in all", held.device) : std::string()),
                      held);
  }
}

MemoryUse ContextMemory::use(uint64_t requested) const {
  const AllocatorStats stats = allocator_.stats();
  uint64_t arena = 0;
  for (const auto& cache : caches_) arena += cache ? cache->arena_bytes() : 0;
  return {requested, stats.live_bytes, arena, stats.reserved_bytes - stats.live_bytes, device_.caps().memory_bytes};
}

StoragePtr ContextMemory::allocate(uint64_t bytes) {
  return std::make_shared<OwnedStorage>(
      *this, with_memory(bytes, [&] { return allocator_.allocate(std::max<uint64_t>(bytes, 1)); }));
}

std::vector<StoragePtr> ContextMemory::allocate_adjacent(const std::vector<uint64_t>& bytes) {
  constexpr uint64_t large = 16 << 20, longest_stretch = 128 << 20;
  const Caps& caps = device_.caps();
  const uint64_t limit = std::min({longest_stretch, caps.max_binding_bytes, caps.max_allocation_bytes});
  const uint64_t step = std::max<uint64_t>(256, caps.buffer_alignment);
  std::vector<StoragePtr> storages(bytes.size());
  std::vector<size_t> stretch;
  uint64_t length = 0;
  const auto close = [&] {
    std::vector<uint64_t> sizes;
    for (size_t i : stretch) sizes.push_back(bytes[i]);
    const std::vector<Allocation> parts = with_memory(length, [&] { return allocator_.allocate_adjacent(sizes); });
    for (size_t i = 0; i < parts.size(); ++i) storages[stretch[i]] = std::make_shared<OwnedStorage>(*this, parts[i]);
    stretch.clear();
    length = 0;
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t reserved = round_up(std::max<uint64_t>(bytes[i], 1), step);
    if (reserved > std::min(large, limit)) {
      storages[i] = allocate(bytes[i]);
      continue;
    }
    if (length + reserved > limit) close();
    stretch.push_back(i);
    length += reserved;
  }
  close();
  return storages;
}

std::vector<StoragePtr> ContextMemory::allocate_results(const std::vector<uint64_t>& bytes) {
  constexpr size_t many = 16;  // gradients, not the few results somebody looks at
  if (bytes.size() >= many && allocator_.adjacency_is_free(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0})))
    return allocate_adjacent(bytes);
  std::vector<StoragePtr> storages;
  for (uint64_t b : bytes) storages.push_back(allocate(b));
  return storages;
}

StoragePtr ContextMemory::staged_before(uint64_t bytes) {
  constexpr ptrdiff_t kept_of_a_size = 3;
  const auto same = [&](const StoragePtr& s) { return s->bytes() == bytes; };
  const auto done = [&](const StoragePtr& s) { return s->last_use == Ticket::none || device_.done(s->last_use); };
  const auto at =
      std::find_if(staged_.begin(), staged_.end(), [&](const StoragePtr& s) { return same(s) && s.use_count() == 1; });
  if (at == staged_.end() || (!done(*at) && std::count_if(staged_.begin(), staged_.end(), same) < kept_of_a_size))
    return nullptr;
  StoragePtr storage = std::move(*at);
  staged_.erase(at);
  return storage;
}

void ContextMemory::make_room_to_stage(uint64_t bytes) {
  constexpr size_t kept_in_all = 24;
  constexpr uint64_t kept_bytes = 256 << 20;
  uint64_t kept = 0;
  for (const StoragePtr& s : staged_) kept += s->bytes();
  for (; !staged_.empty() && (staged_.size() >= kept_in_all || kept + bytes > kept_bytes);
       staged_.erase(staged_.begin()))
    kept -= staged_.front()->bytes();
}

StoragePtr ContextMemory::stage(const void* source, uint64_t bytes) {
  StoragePtr storage = staged_before(bytes);
  if (!storage) {
    storage = allocate(bytes);
    make_room_to_stage(bytes);
  }
  const Binding target = storage->binding();
  // None: a write to the memory's last owner, or of a batch that nobody used, may still be queued.
  if (storage->last_use == Ticket::none) {
    device_.write(target.buffer, target.offset, source, bytes);
  } else {
    device_.write_beside(target.buffer, target.offset, source, bytes, std::exchange(storage->last_use, Ticket::none));
  }
  staged_.push_back(storage);
  return storage;
}

}  // namespace heddle
