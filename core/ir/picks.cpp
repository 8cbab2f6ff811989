#include "heddle/core/ir/picks.h"

#include "heddle/core/op/primitives.h"

namespace heddle {

bool picks_beyond(const Graph& graph, int vertex, uint64_t bytes) {
  const auto at = [&](int id) -> const IrNode& { return graph.nodes[static_cast<size_t>(id)]; };
  if (at(vertex).op != &ops::take_op && at(vertex).op != &ops::gather_op) return false;
  for (int id = at(vertex).inputs[0];; id = at(id).inputs[0]) {
    const IrNode& node = at(id);
    int64_t elements = node.shape.numel();
    if (node.leaf >= 0) elements = graph.leaves[static_cast<size_t>(node.leaf)].view.extent().second + 1;
    if (static_cast<uint64_t>(elements) * size_of(node.dtype) > bytes) return true;
    if (!is_view_op(*node.op)) return false;
  }
}

}  // namespace heddle
