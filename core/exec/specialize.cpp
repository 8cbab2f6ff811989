#include "core/exec/specialize.h"

#include <vector>

namespace heddle {
namespace {

// One rewrite: looks at a vertex whose inputs are already vertices of `out`; adds what replaces it and returns the replacement,
// or -1 to leave the vertex as it is.
using Rewrite = int (*)(Graph& out, const IrNode& node, const Caps& caps);

// In order; the first that answers wins. One function per algorithm, each in a file specialize_*.cpp.
const std::vector<Rewrite>& rewrites() {
  static const std::vector<Rewrite> all = {};
  return all;
}

int apply(Graph& out, IrNode node, const Caps& caps) {
  if (node.leaf < 0) {
    for (const Rewrite rewrite : rewrites()) {
      if (const int id = rewrite(out, node, caps); id >= 0) return id;
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
  std::vector<int> to(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    IrNode node = std::move(graph.nodes[i]);
    for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
    to[i] = apply(out, std::move(node), caps);
  }
  for (const IrOutput& output : graph.outputs) out.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  return out;
}

}  // namespace heddle
