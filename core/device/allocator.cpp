#include "heddle/core/device/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"

namespace heddle {
namespace {

// Two size classes keep small ranges from splitting the space of large ones. A class takes whole blocks from the
// driver.
constexpr uint64_t small_limit = 1ull << 20;  // requests up to this come from small blocks
constexpr uint64_t small_block = 4ull << 20;
constexpr uint64_t large_block = 32ull << 20;
constexpr uint64_t dedicated_step = 2ull << 20;  // larger requests: a block of their own, rounded up to this
constexpr size_t holders_shown = 5;

struct Range {
  uint64_t bytes = 0;
  bool free = true;
};

struct Block {
  uint64_t bytes = 0;
  bool small = false;
  std::map<uint64_t, Range> ranges;  // by offset; together they cover the block
};

// Free ranges by size, then place: the first that fits is the best fit, and among equals the lowest.
using FreeKey = std::tuple<uint64_t, BufferId, uint64_t>;  // bytes, buffer, offset

}  // namespace

struct CachingAllocator::State {
  explicit State(Device& d) : device(d), alignment(std::max<uint64_t>(256, d.caps().buffer_alignment)) {}

  Device& device;
  uint64_t alignment;
  std::map<BufferId, Block> blocks;
  std::set<FreeKey> free_ranges[2];  // [small]
  AllocatorStats stats;

  Allocation take(BufferId buffer, uint64_t offset, uint64_t bytes, uint64_t reserved) {
    Block& block = blocks.at(buffer);
    auto at = block.ranges.find(offset);
    const uint64_t before = at->second.bytes, rest = before - reserved;
    if (rest) {  // first what may find no memory
      const auto entry = free_ranges[block.small].insert({rest, buffer, offset + reserved}).first;
      try {
        block.ranges.emplace(offset + reserved, Range{rest, true});
      } catch (...) {
        free_ranges[block.small].erase(entry);
        throw;
      }
    }
    free_ranges[block.small].erase({before, buffer, offset});
    at->second = {reserved, false};
    stats.live_bytes += reserved;
    stats.peak_bytes = std::max(stats.peak_bytes, stats.live_bytes);
    return {buffer, offset, bytes, reserved};
  }

  void add_block(BufferId buffer, uint64_t bytes, bool small) {
    Block& block = blocks[buffer];
    block.bytes = bytes;
    block.small = small;
    block.ranges.emplace(0, Range{bytes, true});
    free_ranges[small].insert({bytes, buffer, 0});
    stats.reserved_bytes += bytes;
    stats.blocks = blocks.size();
  }

  // The sizes of block to ask the driver for, best first: a roomy one, then just what is needed.
  std::vector<uint64_t> block_sizes(uint64_t reserved, bool small) const {
    uint64_t roomy = small                         ? small_block
                     : reserved <= large_block / 2 ? large_block
                                                   : round_up(reserved, dedicated_step);
    uint64_t limit = device.caps().max_allocation_bytes;
    std::vector<uint64_t> sizes;
    if (roomy <= limit && roomy > reserved) sizes.push_back(roomy);
    sizes.push_back(reserved);
    return sizes;
  }

  // A new block for `reserved` bytes, or none when the driver has no more memory.
  BufferId grow(uint64_t reserved, bool small) {
    for (uint64_t bytes : block_sizes(reserved, small)) {
      try {
        BufferId buffer = device.alloc(bytes);
        add_block(buffer, bytes, small);
        return buffer;
      } catch (const OutOfMemory&) {
        continue;
      }
    }
    return BufferId::none;
  }

  void trim() {
    for (auto at = blocks.begin(); at != blocks.end();) {
      const Block& block = at->second;
      if (block.ranges.size() != 1 || !block.ranges.begin()->second.free) {
        ++at;
        continue;
      }
      free_ranges[block.small].erase({block.bytes, at->first, 0});
      stats.reserved_bytes -= block.bytes;
      device.free(at->first);
      at = blocks.erase(at);
    }
    stats.blocks = blocks.size();
  }

  std::string largest_holders() const {
    std::vector<uint64_t> sizes;
    for (const auto& [buffer, block] : blocks) {
      for (const auto& [offset, range] : block.ranges) {
        if (!range.free) sizes.push_back(range.bytes);
      }
    }
    std::sort(sizes.rbegin(), sizes.rend());
    if (sizes.empty()) return "none";
    std::string text;
    for (size_t i = 0; i < std::min(sizes.size(), holders_shown); ++i)
      text += fmt::format("{}{}", i ? ", " : "", sizes[i]);
    return text;
  }

  // Joins the free range at `at` with its free neighbours and puts the result into the index.
  void merge(BufferId buffer, Block& block, std::map<uint64_t, Range>::iterator at) {
    auto& index = free_ranges[block.small];
    auto next = std::next(at);
    if (next != block.ranges.end() && next->second.free) {
      index.erase({next->second.bytes, buffer, next->first});
      at->second.bytes += next->second.bytes;
      block.ranges.erase(next);
    }
    if (at != block.ranges.begin() && std::prev(at)->second.free) {
      auto previous = std::prev(at);
      index.erase({previous->second.bytes, buffer, previous->first});
      previous->second.bytes += at->second.bytes;
      block.ranges.erase(at);
      at = previous;
    }
    try {
      index.insert({at->second.bytes, buffer, at->first});
    } catch (const std::bad_alloc&) {
      // A destructor releases: without memory for its entry the range is free, but found only when a neighbour is
      // released, or with its whole block.
    }
  }
};

CachingAllocator::CachingAllocator(Device& device) : state_(std::make_unique<State>(device)) {}

CachingAllocator::~CachingAllocator() {
  for (const auto& [buffer, block] : state_->blocks) state_->device.free(buffer);
}

Allocation CachingAllocator::allocate(uint64_t bytes) {
  State& s = *state_;
  uint64_t limit = s.device.caps().max_allocation_bytes;
  if (bytes > limit) {
    throw LimitError(fmt::format("[allocate] {} bytes asked; the device's max_allocation_bytes is {}", bytes, limit));
  }
  // Near the limit the rounded size may not pass it; such a range fills its block, so no neighbour needs the alignment.
  uint64_t reserved = std::min(round_up(std::max<uint64_t>(bytes, 1), s.alignment), std::max<uint64_t>(limit, 1));
  bool small = reserved <= small_limit;
  ++s.stats.allocations;
  auto& index = s.free_ranges[small];
  auto fit = index.lower_bound({reserved, BufferId::none, 0});
  if (fit != index.end()) return s.take(std::get<1>(*fit), std::get<2>(*fit), bytes, reserved);
  BufferId buffer = s.grow(reserved, small);
  if (buffer == BufferId::none) {
    s.trim();
    buffer = s.grow(reserved, small);
  }
  if (buffer != BufferId::none) return s.take(buffer, 0, bytes, reserved);
  throw OutOfMemory(
      fmt::format("[allocate] the device has no memory for {} bytes: {} bytes live, {} reserved from the driver in {} "
                  "blocks; largest live ranges "
                  "(bytes): {}; try a smaller batch, checkpointing, gradient accumulation or lower precision",
                  bytes, s.stats.live_bytes, s.stats.reserved_bytes, s.stats.blocks, s.largest_holders()),
      {bytes, s.stats.live_bytes, 0, s.stats.reserved_bytes - s.stats.live_bytes, s.device.caps().memory_bytes});
}

std::vector<Allocation> CachingAllocator::allocate_adjacent(const std::vector<uint64_t>& bytes) {
  State& s = *state_;
  std::vector<Allocation> parts;
  uint64_t total = 0;
  for (uint64_t b : bytes) {
    const uint64_t reserved = round_up(std::max<uint64_t>(b, 1), s.alignment);
    parts.push_back({BufferId::none, total, b, reserved});
    total += reserved;
  }
  if (parts.empty()) return parts;
  const Allocation whole = allocate(total);
  auto& ranges = s.blocks.at(whole.buffer).ranges;
  ranges.erase(whole.offset);
  for (Allocation& part : parts) {
    part.buffer = whole.buffer;
    part.offset += whole.offset;
    ranges.emplace(part.offset, Range{part.reserved, false});
  }
  s.stats.allocations += parts.size() - 1;
  return parts;
}

bool CachingAllocator::adjacency_is_free(uint64_t bytes) const {
  const auto& index = state_->free_ranges[bytes <= small_limit];
  if (!index.empty() && std::get<0>(*index.rbegin()) >= bytes) return true;
  uint64_t free = 0;
  for (const FreeKey& range : index) free += std::get<0>(range);
  return free < bytes;
}

void CachingAllocator::release(const Allocation& allocation) {
  State& s = *state_;
  auto block = s.blocks.find(allocation.buffer);
  if (block == s.blocks.end()) throw std::logic_error("[release] the allocation's block is not of this allocator");
  auto range = block->second.ranges.find(allocation.offset);
  if (range == block->second.ranges.end() || range->second.free || range->second.bytes != allocation.reserved) {
    throw std::logic_error("[release] the allocation is not live (released twice?)");
  }
  s.stats.live_bytes -= allocation.reserved;
  range->second.free = true;
  s.merge(allocation.buffer, block->second, range);
}

void CachingAllocator::trim() { state_->trim(); }
AllocatorStats CachingAllocator::stats() const { return state_->stats; }
void CachingAllocator::reset_peak() { state_->stats.peak_bytes = state_->stats.live_bytes; }

void CachingAllocator::verify() const {
  const State& s = *state_;
  uint64_t live = 0, reserved = 0;
  size_t free_count = 0;
  auto expect = [](bool condition, const char* what) {
    if (!condition) throw std::logic_error(std::string("[allocator] broken: ") + what);
  };
  for (const auto& [buffer, block] : s.blocks) {
    uint64_t at = 0;
    bool previous_free = false;
    for (const auto& [offset, range] : block.ranges) {
      expect(offset == at, "ranges of a block neither overlap nor leave gaps");
      expect(range.bytes > 0, "no range is empty");
      expect(offset % s.alignment == 0, "every offset is aligned");
      expect(!(previous_free && range.free), "free neighbours are merged");
      if (range.free) {
        expect(s.free_ranges[block.small].contains({range.bytes, buffer, offset}), "every free range is in the index");
        ++free_count;
      } else {
        live += range.bytes;
      }
      previous_free = range.free;
      at += range.bytes;
    }
    expect(at == block.bytes, "ranges cover their block");
    reserved += block.bytes;
  }
  expect(free_count == s.free_ranges[0].size() + s.free_ranges[1].size(), "the index holds free ranges only");
  expect(live == s.stats.live_bytes, "live_bytes is the sum of the live ranges");
  expect(reserved == s.stats.reserved_bytes, "reserved_bytes is the sum of the blocks");
  expect(s.blocks.size() == s.stats.blocks, "blocks is the number of blocks");
  expect(s.stats.peak_bytes >= s.stats.live_bytes, "the peak is not below what is live");
}

}  // namespace heddle
