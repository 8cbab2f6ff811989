#include "heddle/core/ir/groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

const OpDef copy_op{.name = "copy",
                    .kind = OpKind::elementwise,
                    .arity = 1,
                    .rule = DTypeRule::any,
                    .doc = "x, stored",
                    .dialect = "x",
                    .cost = 1};
const OpDef join_op{.name = "join",
                    .kind = OpKind::movement,
                    .arity = -1,
                    .rule = DTypeRule::any,
                    .doc = "the parts one after the other, stored"};

const Member* Group::find(int node) const {
  const auto at =
      std::lower_bound(members.begin(), members.end(), node, [](const Member& m, int key) { return m.node < key; });
  return at != members.end() && at->node == node ? &*at : nullptr;
}

void Group::add(int id, Level level, bool stored) {
  const auto place =
      std::lower_bound(members.begin(), members.end(), id, [](const Member& m, int key) { return m.node < key; });
  members.insert(place, {id, level, stored});
}

void Group::add_inlined(int id) { inlined.insert(std::lower_bound(inlined.begin(), inlined.end(), id), id); }

int ScheduledGraph::assigned_slot(int vertex) const {
  for (const OutputPlan& output : outputs) {
    if (output.base == vertex && output.in_place()) return output.assign_slot;
  }
  return -1;
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
      text += fmt::format(" %{} {}{}{}", member.node, graph.nodes[member.node].op->name,
                          levels[static_cast<int>(member.level)], member.stored ? "*" : "");
    }
    text += '\n';
  }
  return text;
}

}  // namespace heddle
