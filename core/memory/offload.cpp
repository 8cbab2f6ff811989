#include "heddle/core/memory/offload.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/memory/kernel_sequence.h"

namespace heddle {
namespace {

constexpr int shortest = 8;     // launches between two uses
constexpr int early = 4;        // launches before its use that a value comes back, where copies run beside kernels
constexpr uint64_t step = 256;  // offsets in host memory
constexpr int64_t least_bytes = 4096;

// Vertices whose memory a mark means: a marked view is what it is a view of.
std::set<int> marked_vertices(const Graph& graph) {
  std::set<int> marked;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].keep != Keep::offload) continue;
    int id = static_cast<int>(i);
    while (graph.nodes[static_cast<size_t>(id)].op->kind == OpKind::movement)
      id = graph.nodes[static_cast<size_t>(id)].inputs[0];
    marked.insert(id);
  }
  return marked;
}

LoweredKernel transfer(int vertex, DType dtype, Access access, uint64_t offset) {
  LoweredKernel kernel;
  kernel.source.name = access == Access::read ? "offload" : "fetch";
  kernel.source.buffers = {{"t_b0", dtype, access}};
  kernel.bindings = {{SlotRef::Kind::vertex, vertex}};
  kernel.host_offset = offset;
  return kernel;
}

// The uses on both sides of the longest stretch without one.
std::pair<int, int> longest_wait(const std::vector<int>& touches) {
  std::pair<int, int> best{0, 0};
  for (size_t i = 0; i + 1 < touches.size(); ++i) {
    if (touches[i + 1] - touches[i] > best.second - best.first) best = {touches[i], touches[i + 1]};
  }
  return best;
}

}  // namespace

uint64_t add_transfers(ScheduledGraph& scheduled, std::vector<LoweredKernel>& kernels, const Caps& caps) {
  const std::set<int> marked = marked_vertices(scheduled.graph);
  if (marked.empty()) return 0;
  const SequenceFacts facts(scheduled, kernels, caps);
  const KernelSequence::Life life = KernelSequence(facts).life(facts);
  std::multimap<int, LoweredKernel> before;  // launches to be added, by the position they come before
  uint64_t host_bytes = 0;
  for (size_t b = 0; b < facts.bases.size(); ++b) {
    const SequenceFacts::Base& base = facts.bases[b];
    if (!marked.contains(base.vertex) || base.unit < 0 || base.at_end || base.bytes < least_bytes) continue;
    const auto [last, next] = longest_wait(life.touches[b]);
    if (next - last < shortest) continue;
    const DType dtype = scheduled.graph.nodes[static_cast<size_t>(base.vertex)].dtype;
    const int back = scheduled.graph.add(IrNode(scheduled.graph.nodes[static_cast<size_t>(base.vertex)]));
    scheduled.free_nodes.push_back(false);
    before.emplace(last + 1, transfer(base.vertex, dtype, Access::read, host_bytes));
    before.emplace(caps.queues > 1 ? std::max(last + 2, next - early) : next,
                   transfer(back, dtype, Access::write, host_bytes));
    host_bytes += round_up(static_cast<uint64_t>(base.bytes), step);
    const auto rename = [&](std::vector<SlotRef>& slots) {
      for (SlotRef& slot : slots) {
        if (slot.kind == SlotRef::Kind::vertex && slot.index == base.vertex) slot.index = back;
      }
    };
    for (size_t k = static_cast<size_t>(next); k < kernels.size(); ++k) {
      rename(kernels[k].bindings);
      for (LoweredKernel::JoinedRow& row : kernels[k].joined) rename(row.bindings);
    }
  }
  std::vector<LoweredKernel> list;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto [begin, end] = before.equal_range(static_cast<int>(k));
    for (auto at = begin; at != end; ++at) list.push_back(std::move(at->second));
    list.push_back(std::move(kernels[k]));
  }
  kernels = std::move(list);
  return host_bytes;
}

}  // namespace heddle
