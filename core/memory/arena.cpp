#include "heddle/core/memory/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "heddle/core/base/integers.h"

namespace heddle {
namespace {

uint64_t bytes_of(const IrNode& node) {
  return round_up(std::max<uint64_t>(1, static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype)), 4);
}

// The lowest offset in `block` at which [offset, offset + bytes) meets no placed range that is alive at the same time.
uint64_t lowest_free(const std::vector<std::pair<uint64_t, uint64_t>>& taken, uint64_t bytes, uint64_t alignment) {
  uint64_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + bytes <= begin) break;
    offset = std::max(offset, round_up(end, alignment));
  }
  return offset;
}

// Sets lower_bound and fullest.
void find_fullest(MemoryPlan& plan, uint64_t alignment) {
  std::map<int, int64_t> change;
  for (const Lifetime& life : plan.lifetimes) {
    const int64_t bytes = static_cast<int64_t>(round_up(life.bytes, alignment));
    change[life.first] += bytes;
    change[life.last + 1] -= bytes;
  }
  int64_t alive = 0, most = 0;
  for (const auto& [time, bytes] : change) {
    alive += bytes;
    if (alive <= most) continue;
    most = alive;
    plan.fullest = time;
  }
  plan.lower_bound = static_cast<uint64_t>(most);
}

}  // namespace

uint64_t ArenaPlan::total() const { return std::accumulate(block_bytes.begin(), block_bytes.end(), uint64_t{0}); }

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes, uint64_t alignment, uint64_t largest_block) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  ArenaPlan plan;
  plan.placements.resize(lifetimes.size());
  std::vector<size_t> placed;
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    for (int block = 0;; ++block) {
      std::vector<std::pair<uint64_t, uint64_t>> taken;
      for (size_t other : placed) {
        const Lifetime& o = lifetimes[other];
        if (plan.placements[other].block == block && o.first <= life.last && life.first <= o.last) {
          taken.push_back({plan.placements[other].offset, plan.placements[other].offset + o.bytes});
        }
      }
      std::sort(taken.begin(), taken.end());
      const uint64_t offset = lowest_free(taken, life.bytes, alignment);
      const bool fresh = block == static_cast<int>(plan.block_bytes.size());
      if (!fresh && offset + life.bytes > largest_block) continue;
      if (fresh) plan.block_bytes.push_back(0);
      plan.placements[i] = {block, offset};
      plan.block_bytes[static_cast<size_t>(block)] =
          std::max(plan.block_bytes[static_cast<size_t>(block)], offset + life.bytes);
      break;
    }
    placed.push_back(i);
  }
  return plan;
}

MemoryPlan plan_memory(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Caps& caps) {
  MemoryPlan plan;
  for (const OutputPlan& output : scheduled.outputs) {
    const IrNode& base = scheduled.graph.nodes[output.base];
    if (base.leaf >= 0 || output.assign_slot >= 0) continue;
    // A vertex written straight into an input storage is read from there.
    if (scheduled.assigned_slot(output.base) < 0 &&
        plan.own_storage.try_emplace(output.base, plan.own_bytes.size()).second)
      plan.own_bytes.push_back(bytes_of(base));
  }
  const int end = static_cast<int>(kernels.size());
  for (int k = 0; k < end; ++k) {
    kernels[k].for_each_binding([&](SlotRef slot, Access access) {
      if (slot.kind != SlotRef::Kind::vertex || plan.own_storage.contains(slot.index)) return;
      const bool writes = access != Access::read;
      const auto [entry, fresh] = plan.temporaries.try_emplace(slot.index, plan.lifetimes.size());
      if (fresh) {
        // The kernel of an empty value was left out; it is bound, but nothing of it is read.
        if (!writes && scheduled.graph.nodes[slot.index].shape.numel() > 0)
          throw std::logic_error(fmt::format("[plan] kernel {} reads %{}, which nothing wrote", k, slot.index));
        plan.lifetimes.push_back({slot.index, bytes_of(scheduled.graph.nodes[slot.index]), k, k});
      }
      plan.lifetimes[entry->second].last = k;
    });
  }
  for (const OutputPlan& output : scheduled.outputs) {
    // Copied back after the last kernel.
    if (const auto t = plan.temporaries.find(output.base); output.copy_back && t != plan.temporaries.end())
      plan.lifetimes[t->second].last = end;
  }
  const uint64_t alignment = std::max<uint64_t>(256, caps.buffer_alignment);
  plan.arena = plan_arena(plan.lifetimes, alignment, caps.max_allocation_bytes);
  find_fullest(plan, alignment);
  return plan;
}

std::string MemoryPlan::str() const {
  std::string text = fmt::format("  arena {} bytes in {} blocks, lower bound {}; outputs {} bytes\n", arena.total(),
                                 arena.block_bytes.size(), lower_bound,
                                 std::accumulate(own_bytes.begin(), own_bytes.end(), uint64_t{0}));
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& life = lifetimes[i];
    text += fmt::format("  %{}: kernels {}..{}, {} bytes at {}:{}\n", life.vertex, life.first, life.last, life.bytes,
                        arena.placements[i].block, arena.placements[i].offset);
  }
  return text;
}

}  // namespace heddle
