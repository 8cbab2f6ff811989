// CachingAllocator: sub-allocates large device blocks, so that a graph never calls the driver for memory.
//
// Purpose: size classes, split and merge of free ranges over blocks from Device::alloc. Because a device has one
// in-order queue, a freed range may be handed out again at once: the commands that still use it run before those of the
// new owner. Invariants: live ranges never overlap; every offset is a multiple of Caps::buffer_alignment (at least
// 256); no range is larger than Caps::max_allocation_bytes. Thread safety: none; DeviceContext locks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/allocator_stats.h"

namespace heddle {

struct Allocation {
  BufferId buffer = BufferId::none;
  uint64_t offset = 0;
  uint64_t bytes = 0;     // as asked
  uint64_t reserved = 0;  // as taken, rounded to the alignment
};

class CachingAllocator {
 public:
  explicit CachingAllocator(Device& device);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Throws LimitError above max_allocation_bytes; OutOfMemory (asked, live, reserved, what to try) when the driver has
  // no more even after unused blocks were returned to it.
  Allocation allocate(uint64_t bytes);
  // One range after the other, as close as the alignment allows; each is released by itself. Throws as allocate() of
  // their sum does.
  std::vector<Allocation> allocate_adjacent(const std::vector<uint64_t>& bytes);
  // Whether allocate_adjacent() of that sum wastes nothing: a free range takes it, or the free ranges together would
  // not.
  bool adjacency_is_free(uint64_t bytes) const;
  void release(const Allocation& allocation);
  // Gives blocks without live ranges back to the driver.
  void trim();
  AllocatorStats stats() const;
  void reset_peak();
  // Throws std::logic_error when an invariant is broken; for tests.
  void verify() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle
