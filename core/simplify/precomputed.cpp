#include "heddle/core/simplify/precomputed.h"

#include <algorithm>
#include <set>

#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/simplifier.h"

namespace heddle {
namespace {

// By vertex: does it depend on stored values alone, which this graph does not overwrite?
std::vector<bool> stable_vertices(const Graph& graph) {
  std::set<int> written;
  for (const IrOutput& output : graph.outputs) written.insert(output.assign_slot);
  std::vector<bool> stable(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const IrNode& node = graph.nodes[i];
    if (node.leaf >= 0) {
      const int slot = graph.leaves[static_cast<size_t>(node.leaf)].slot;
      stable[i] = slot >= 0 && !written.contains(slot);
    } else {
      stable[i] =
          node.op->kind != OpKind::random && std::all_of(node.inputs.begin(), node.inputs.end(),
                                                         [&](int input) { return stable[static_cast<size_t>(input)]; });
    }
  }
  return stable;
}

}  // namespace

std::optional<OnceSplit> split_once(const Graph& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const IrNode& node) { return node.once; }))
    return std::nullopt;
  const std::vector<bool> stable = stable_vertices(graph);
  OnceSplit split{graph, graph, {}};
  split.once.outputs.clear();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].once || !stable[i]) continue;
    const int slot = graph.storage_slots + static_cast<int>(split.once.outputs.size());
    split.once.outputs.push_back({static_cast<int>(i), -1});
    IrNode& node = split.rest.nodes[i];
    split.rest.leaves.push_back({slot, -1, View::dense(node.shape)});
    IrNode leaf{&ops::leaf_op, {}, {}, node.shape, node.dtype, static_cast<int>(split.rest.leaves.size()) - 1};
    leaf.origin = node.origin;
    leaf.varies = node.varies;
    node = std::move(leaf);
  }
  if (split.once.outputs.empty()) return std::nullopt;
  split.rest.storage_slots += static_cast<int>(split.once.outputs.size());
  split.once = drop_dead(std::move(split.once));
  split.rest = drop_dead(std::move(split.rest));
  std::set<int> slots;
  for (const IrNode& node : split.once.nodes) {
    if (node.leaf >= 0) slots.insert(split.once.leaves[static_cast<size_t>(node.leaf)].slot);
  }
  split.slots.assign(slots.begin(), slots.end());
  return split;
}

}  // namespace heddle
