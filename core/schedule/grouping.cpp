#include "heddle/core/schedule/grouping.h"

#include <algorithm>
#include <utility>

#include "heddle/core/graph/loop.h"
#include "heddle/core/ir/group_access.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/schedule/joining.h"

namespace heddle {
namespace {

GroupKind kind_of(const IrNode& node) {
  if (node.op == &join_op) return GroupKind::join;
  switch (node.op->kind) {
    case OpKind::contraction:
      return GroupKind::matmul;
    case OpKind::reduce:
      return GroupKind::reduce;
    case OpKind::body:
      return GroupKind::body;
    default:
      return GroupKind::elementwise;
  }
}

Group group_of_one(const Graph& graph, int id) {
  const IrNode& node = graph.nodes[id];
  Group group;
  group.kind = kind_of(node);
  const bool reduce = group.kind == GroupKind::reduce, elementwise = group.kind == GroupKind::elementwise;
  group.domain = elementwise || reduce ? squeezed(node.shape) : node.shape;
  if (reduce) group.inner = reduced_shape(graph, node);
  if (!elementwise && group.kind != GroupKind::join) group.anchor = id;
  group.members.push_back({id, reduce ? Level::row : Level::element, true});
  return group;
}

// A loop and all its results are one group.
void place_in_loop(GroupSet& set, int id) {
  const int loop = set.at(id).op == &ops::loop_op ? id : set.at(id).inputs[0];
  if (set.group_of[loop] < 0) {
    Group group;
    group.kind = GroupKind::loop;
    group.anchor = loop;
    group.members.push_back({loop, Level::element, false});
    set.add(std::move(group));
  }
  if (id == loop) return;
  set.group_of[id] = set.group_of[loop];
  add_member(set.groups[set.group_of[loop]], id, Level::element, true);
}

bool try_join(GroupSet& set, int id, int g, bool only) {
  const Group& group = set.groups[g];
  if (group.kind == GroupKind::join || group.kind == GroupKind::loop) return false;
  if (set.limits.counted_loops && !may_loop_together(set.graph, group, id)) return false;
  std::optional<Group> joined = with_vertex(set.graph, set.free_nodes, group, id, only);
  return joined && set.try_grow(g, std::move(*joined), id);
}

bool try_users(GroupSet& set, int id) {
  std::vector<int> candidates;
  for (int user : set.waits.users()[id]) {
    if (std::find(candidates.begin(), candidates.end(), set.group_of[user]) == candidates.end())
      candidates.push_back(set.group_of[user]);
  }
  const bool only = candidates.size() == 1 && !set.waits.is_output(id);
  // A value that belongs to the rows of some group goes there first, so that its reduction can follow.
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](int g) { return splits_rows(set.graph, set.groups[g], id); });
  return std::any_of(candidates.begin(), candidates.end(), [&](int g) { return try_join(set, id, g, only); });
}

}  // namespace

void group_vertices(GroupSet& set) {
  for (int id = static_cast<int>(set.graph.nodes.size()); id-- > 0;) {
    if (!set.waits.is_kernel(id)) continue;
    if (is_loop(*set.at(id).op))
      place_in_loop(set, id);
    else if (!set.limits.passes.has(Pass::fuse) || !try_users(set, id))
      set.add(group_of_one(set.graph, id));
  }
}

}  // namespace heddle
