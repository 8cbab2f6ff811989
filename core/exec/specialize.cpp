#include "core/exec/specialize.h"

#include <vector>

#include "core/exec/rewrites.h"
#include "core/exec/varying.h"

namespace heddle {
namespace {

// In order; the first that answers wins.
const std::vector<Rewrite>& rewrites() {
  static const std::vector<Rewrite> all = {split_conv_weight_grad, split_matmul, split_attention, split_reduction, long_sort, long_scan, sorted_scatter};
  return all;
}

int apply(Graph& out, IrNode node, const Caps& caps) {
  if (node.leaf < 0) {
    for (const Rewrite rewrite : rewrites()) {
      if (const int id = rewrite(out, node, caps); id >= 0) {
        out.nodes[static_cast<size_t>(id)].origin = node.origin;
        return id;
      }
    }
  }
  return out.add(std::move(node));
}

}  // namespace

Graph specialize(Graph graph, const Caps& caps) {
  Graph out;
  out.leaves = std::move(graph.leaves);
  out.storage_slots = graph.storage_slots;
  out.host_slots = graph.host_slots;
  AttentionPairs pairs(graph, caps);
  const bool any = anything_varies(graph);
  size_t settled = 0;
  std::vector<int> to(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    IrNode node = std::move(graph.nodes[i]);
    for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
    to[i] = pairs.replace(out, i, node);
    if (to[i] < 0) to[i] = apply(out, std::move(node), caps);
    settle_sizes(out, any, settled);
    settled = out.nodes.size();
  }
  for (const IrOutput& output : graph.outputs) out.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  return out;
}

}  // namespace heddle
