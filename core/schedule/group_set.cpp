#include "heddle/core/schedule/group_set.h"

#include <algorithm>
#include <utility>

#include "heddle/core/ir/group_access.h"
#include "heddle/core/schedule/hazards.h"

namespace heddle {
namespace {

// Operations of one element that the loops over the group's rows hold.
size_t ops_in_loops(const Group& group) {
  if (group.kind != GroupKind::reduce) return 0;
  const auto in_rows = [](const Member& member) { return member.level == Level::full; };
  return group.inlined.size() + static_cast<size_t>(std::ranges::count_if(group.members, in_rows));
}

}  // namespace

bool GroupSet::fits(const Group& group) const {
  return ops_in_loops(group) <= limits.max_loop_ops && fits_kernel(graph, free_nodes, group, limits.max_bindings);
}

void GroupSet::add(Group group) {
  for (const Member& member : group.members) group_of[member.node] = static_cast<int>(groups.size());
  groups.push_back(std::move(group));
}

bool GroupSet::try_grow(int g, Group joined, int id) {
  if (!fits(joined) || has_hazard(graph, free_nodes, joined, waits.writers())) return false;
  const int before = group_of[id];
  group_of[id] = g;
  if (makes_cycle(g, id)) {
    group_of[id] = before;
    return false;
  }
  groups[g] = std::move(joined);
  return true;
}

bool GroupSet::try_merge(int g, int other, Group joined) {
  if (!fits(joined) || has_hazard(graph, free_nodes, joined, waits.writers())) return false;
  std::vector<int> own;  // what is computed in several groups may belong to a third one
  for (int id : groups[other].inlined) {
    if (group_of[id] == other) own.push_back(id);
  }
  const auto move_to = [&](int target) {
    for (const Member& member : groups[other].members) group_of[member.node] = target;
    for (int id : own) group_of[id] = target;
  };
  move_to(g);
  std::swap(groups[g], joined);
  if (makes_cycle(g, groups[g].members[0].node)) {
    std::swap(groups[g], joined);
    move_to(other);
    return false;
  }
  groups[other].members.clear();
  groups[other].inlined.clear();
  return true;
}

void GroupSet::drop_empty() {
  std::vector<int> to(groups.size(), -1);
  std::vector<Group> kept;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].members.empty()) continue;
    to[g] = static_cast<int>(kept.size());
    kept.push_back(std::move(groups[g]));
  }
  groups = std::move(kept);
  for (int& g : group_of) {
    if (g >= 0) g = to[static_cast<size_t>(g)];
  }
}

// Is there a path that leaves group g and comes back, with `id` counted as a member?
bool GroupSet::makes_cycle(int g, int id) const {
  std::vector<int> stack;
  std::vector<bool> seen_groups(groups.size(), false);
  std::vector<bool> seen(graph.nodes.size(), false);
  const auto expand = [&](int from, bool from_inside) {
    waits.for_each_successor(from, [&](int next) {
      if (from_inside && group_of[next] == g) return;
      if (!seen[next]) {
        seen[next] = true;
        stack.push_back(next);
      }
    });
  };
  const auto expand_group = [&](int group_index) {
    for (const Member& member : groups[group_index].members) expand(member.node, group_index == g);
    for (int inlined : groups[group_index].inlined) expand(inlined, group_index == g);
  };
  expand(id, true);
  expand_group(g);
  while (!stack.empty()) {
    const int next = stack.back();
    stack.pop_back();
    const int group = group_of[next];
    if (group == g) return true;
    if (group < 0) {
      expand(next, false);
    } else if (!seen_groups[group]) {
      seen_groups[group] = true;
      expand_group(group);
    }
  }
  return false;
}

}  // namespace heddle
