#include "heddle/core/schedule/siblings.h"

#include <algorithm>
#include <set>
#include <utility>

#include "heddle/core/ir/group_access.h"

namespace heddle {
namespace {

bool gives_output(const GroupSet& set, const Group& group) {
  return group.kind == GroupKind::elementwise &&
         std::any_of(group.members.begin(), group.members.end(),
                     [&](const Member& m) { return set.waits.is_output(m.node); });
}

// A storage may hold many tensors: do the groups read one of them, whole?
bool share_read(const GroupSet& set, const Group& a, const Group& b) {
  std::set<int> leaves;
  for (const Use& use : external_uses(set.graph, a, set.free_nodes)) {
    if (set.at(use.node).leaf >= 0 && set.at(use.node).shape.numel() == a.domain.numel()) leaves.insert(use.node);
  }
  const std::vector<Use> uses = external_uses(set.graph, b, set.free_nodes);
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return leaves.contains(use.node); });
}

// What one of two merged groups stored for the other alone is not stored any more. False when something is that does
// not outlive the graph.
bool keep_outputs_only(const GroupSet& set, Group& group) {
  for (Member& member : group.members) {
    if (!member.stored || set.waits.is_output(member.node)) continue;
    const std::vector<int>& users = set.waits.users()[member.node];
    if (!std::all_of(users.begin(), users.end(), [&](int user) { return group.find(user) != nullptr; })) return false;
    member.stored = false;
  }
  return true;
}

void merge(GroupSet& set, int g, int other) {
  const Group& from = set.groups[other];
  if (set.groups[g].domain != from.domain || !share_read(set, set.groups[g], from)) return;
  Group joined = set.groups[g];
  for (const Member& member : from.members) joined.add(member.node, member.level, member.stored);
  for (int id : from.inlined) {
    if (!std::binary_search(joined.inlined.begin(), joined.inlined.end(), id)) joined.add_inlined(id);
  }
  if (keep_outputs_only(set, joined)) set.try_merge(g, other, std::move(joined));
}

}  // namespace

void merge_siblings(GroupSet& set) {
  for (const auto& [slot, readers] : set.waits.readers()) {
    int first = -1;
    std::set<int> tried;
    for (int reader : readers) {
      const int g = set.group_of[reader];
      if (g == first || !tried.insert(g).second || !gives_output(set, set.groups[g])) continue;
      if (first < 0)
        first = g;
      else
        merge(set, first, g);
    }
  }
  set.drop_empty();
}

}  // namespace heddle
