// GroupSet: the groups while the scheduler makes them, and the rules that each change of them must keep.
//
// Purpose: grouping (grouping.h) and merging (siblings.h) change groups only through try_grow() and try_merge(), so
// that what lies here holds in both. Invariants: a group fits one kernel; no path leaves a group and comes back; no
// kernel overwrites what it still reads elsewhere (hazards.h). Thread safety: none.
#pragma once

#include <vector>

#include "heddle/core/ir/groups.h"
#include "heddle/core/schedule/dependencies.h"
#include "heddle/core/schedule/schedule_limits.h"

namespace heddle {

struct GroupSet {
  const Graph& graph;
  const std::vector<bool>& free_nodes;
  const ScheduleLimits& limits;
  Dependencies& waits;
  std::vector<Group> groups;
  std::vector<int> group_of;  // by vertex; -1: none

  const IrNode& at(int id) const { return graph.nodes[static_cast<size_t>(id)]; }
  bool fits(const Group& group) const;
  // The new group and its members' entries in group_of.
  void add(Group group);
  // Group g becomes `joined`, which holds `id` besides, unless that breaks a rule.
  bool try_grow(int g, Group joined, int id);
  // Groups g and `other` become `joined`, in the place of g, unless that breaks a rule. `other` is empty then.
  bool try_merge(int g, int other, Group joined);
  // Groups without members go.
  void drop_empty();

 private:
  bool makes_cycle(int g, int id) const;
};

}  // namespace heddle
