#include "heddle/core/specialise/specialize.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/specialise/rewrites.h"

namespace heddle {
namespace {

struct Row {
  Pass pass;
  Rewrite apply;
};

// In order; the first that answers wins.
constexpr Row rows[] = {{Pass::split_conv, split_conv},
                        {Pass::split_matmul, split_matmul},
                        {Pass::split_attention, split_attention},
                        {Pass::split_reduce, split_reduction},
                        {Pass::sort, long_sort},
                        {Pass::scan, long_scan},
                        {Pass::scatter, sorted_scatter}};

// Where a driver ends long loops, a vertex whose kernel could meet that limit is rewritten whatever is switched off.
bool could_meet_loop_limit(const Graph& out, const IrNode& node, const Caps& caps) {
  if (caps.max_loop_iterations > uint64_t{1} << 33) return false;
  int64_t most = 0;
  for (const int input : node.inputs) most = std::max(most, out.nodes[static_cast<size_t>(input)].shape.numel());
  const bool summed =
      node.op->kind == OpKind::reduce || node.op->kind == OpKind::contraction || node.op->kind == OpKind::body;
  return summed && static_cast<uint64_t>(most) > caps.max_loop_iterations / 8;
}

// lower() refuses what no kernel can address; how to cut it up is not worth a search, which may be as long as the size.
bool addressable(const Graph& out, const IrNode& node) {
  const auto fits = [&](int input) {
    return out.nodes[static_cast<size_t>(input)].shape.numel() <= addressable_elements;
  };
  return node.shape.numel() <= addressable_elements && std::all_of(node.inputs.begin(), node.inputs.end(), fits);
}

int apply(Graph& out, IrNode node, const Caps& caps, PassSet passes) {
  if (node.leaf < 0 && addressable(out, node)) {
    for (const Row& row : rows) {
      if (!passes.has(row.pass) && !could_meet_loop_limit(out, node, caps)) continue;
      if (const int id = row.apply(out, node, caps); id >= 0) {
        out.nodes[static_cast<size_t>(id)].origin = node.origin;
        out.nodes[static_cast<size_t>(id)].keep = node.keep;
        return id;
      }
    }
  }
  return out.add(std::move(node));
}

}  // namespace

Graph specialize(Graph graph, const Caps& caps, PassSet passes) {
  Graph out = graph.over_same_leaves();
  std::optional<AttentionPairs> pairs;
  if (passes.has(Pass::pair_attention)) pairs.emplace(graph, caps);
  const bool any = anything_varies(graph);
  size_t settled = 0;
  std::vector<int> to(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    IrNode node = std::move(graph.nodes[i]);
    for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
    to[i] = pairs ? pairs->replace(out, i, node) : -1;
    if (to[i] < 0) to[i] = apply(out, std::move(node), caps, passes);
    settle_sizes(out, any, settled);
    settled = out.nodes.size();
  }
  for (const IrOutput& output : graph.outputs)
    out.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  return out;
}

}  // namespace heddle
