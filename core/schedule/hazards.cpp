#include "heddle/core/schedule/hazards.h"

#include <algorithm>

#include "heddle/core/ir/bodies.h"
#include "heddle/core/ir/group_access.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// A body that only writes what differs from its first operand, while the others lie elsewhere.
bool updates_in_place(const Graph& graph, const Group& group, int slot) {
  if (group.kind != GroupKind::body || !body_row(*graph.nodes[group.anchor].op).updates) return false;
  const std::vector<int>& inputs = graph.nodes[group.anchor].inputs;
  return std::none_of(inputs.begin() + 1, inputs.end(), [&](int id) {
    while (is_view_op(*graph.nodes[id].op)) id = graph.nodes[id].inputs[0];
    return graph.nodes[id].leaf >= 0 && graph.leaves[graph.nodes[id].leaf].slot == slot;
  });
}

}  // namespace

bool reads_elsewhere(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, const Member& writer,
                     int slot) {
  if (updates_in_place(graph, group, slot)) return false;
  const IrNode& written = graph.nodes[writer.node];
  const Shape shape = writer.level == Level::full ? full_shape(group) : group.domain;
  // What belongs to a row is stored before the row's elements are computed, and those may ask for the old value then.
  const bool elements_follow =
      writer.level == Level::row && std::any_of(group.members.begin(), group.members.end(),
                                                [](const Member& m) { return m.level == Level::full && m.stored; });
  for (const Use& use : external_uses(graph, group, free_nodes)) {
    const IrNode& node = graph.nodes[use.node];
    if (node.leaf < 0 || graph.leaves[node.leaf].slot != slot) continue;
    const std::optional<Index> access = linear_access(graph, use);
    const bool same = !elements_follow && !use.operand && use.level == writer.level &&
                      graph.leaves[node.leaf].view.is_dense() && access && node.dtype == written.dtype &&
                      written.shape.numel() == shape.numel() && is_dense_over(*access, shape, 0);
    if (!same) return true;
  }
  return false;
}

bool has_hazard(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group,
                const std::map<int, int>& writers) {
  return std::any_of(writers.begin(), writers.end(), [&](const auto& entry) {
    const Member* member = group.find(entry.second);
    return member != nullptr && reads_elsewhere(graph, free_nodes, group, *member, entry.first);
  });
}

}  // namespace heddle
