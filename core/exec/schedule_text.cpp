// What a schedule says of itself, and which vertices it never stores.
#include <fmt/format.h>

#include <algorithm>

#include "core/exec/schedule.h"
#include "core/graph/primitives.h"

namespace heddle {

std::vector<bool> find_free_nodes(const Graph& graph) {
  constexpr int limit = 16;
  std::vector<int> cost(graph.nodes.size(), 0);
  std::vector<bool> free_nodes(graph.nodes.size(), false);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const IrNode& node = graph.nodes[id];
    cost[id] = node.leaf >= 0 || node.op->kind == OpKind::constant ? 0 : limit + 1;
    const bool scalar = node.shape.numel() == 1 && (node.op->kind == OpKind::elementwise || is_view_op(*node.op)) && node.op != &copy_op;
    const bool view = is_view_op(*node.op);
    if (!scalar && !view) continue;
    int total = view ? 0 : node.op->cost;
    for (int input : node.inputs) total += cost[input];
    cost[id] = std::min(total, limit + 1);
    free_nodes[id] = !view && total <= limit;
  }
  return free_nodes;
}

std::string ScheduledGraph::str() const {
  static constexpr const char* kinds[] = {"elementwise", "reduce", "matmul", "body", "join", "loop"};
  static constexpr const char* levels[] = {"", " row", " full"};
  std::string text;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    text += fmt::format("  group {} {} {}", g, kinds[static_cast<int>(group.kind)], group.domain.str());
    if (group.kind == GroupKind::reduce) text += fmt::format(" over {}", group.inner.str());
    text += ":";
    for (int id : group.inlined) text += fmt::format(" [%{} {}]", id, graph.nodes[id].op->name);
    for (const Member& member : group.members) {
      text += fmt::format(" %{} {}{}{}", member.node, graph.nodes[member.node].op->name, levels[static_cast<int>(member.level)], member.stored ? "*" : "");
    }
    text += '\n';
  }
  return text;
}

}  // namespace heddle
