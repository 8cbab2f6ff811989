#include "heddle/core/schedule/schedule.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/ir/uses.h"
#include "heddle/core/schedule/dependencies.h"
#include "heddle/core/schedule/group_order.h"
#include "heddle/core/schedule/group_set.h"
#include "heddle/core/schedule/grouping.h"
#include "heddle/core/schedule/hazards.h"
#include "heddle/core/schedule/siblings.h"
#include "heddle/core/specialise/materialize.h"
#include "heddle/core/specialise/recompute_cheap.h"

namespace heddle {
namespace {

// In-place writes that cannot be ordered after all reads of the old value (a swap, say) are computed apart and copied
// at the end.
void write_cycles_apart(std::vector<OutputPlan>& outputs, Dependencies& waits) {
  const std::vector<bool> orderable = waits.orderable();
  for (OutputPlan& output : outputs) {
    if (output.assign_slot >= 0 && !orderable[output.base]) waits.write_apart(output);
  }
  waits.order_writes();
}

// So are those of a vertex that alone reads its own target elsewhere (p = p^T p).
void write_hazards_apart(std::vector<OutputPlan>& outputs, const GroupSet& set) {
  for (OutputPlan& output : outputs) {
    if (!output.in_place()) continue;
    const Group& group = set.groups[set.group_of[output.base]];
    if (reads_elsewhere(set.graph, set.free_nodes, group, *group.find(output.base), output.assign_slot))
      set.waits.write_apart(output);
  }
  set.waits.order_writes();
}

void recompute_cheap(GroupSet& set) {
  recompute_cheap_values({set.graph, set.free_nodes, set.waits.outputs(), set.waits.writers(),
                          [&](const Group& group) { return set.fits(group); }, set.groups, set.group_of,
                          set.waits.users()});
  set.drop_empty();
}

std::vector<Group> in_order(const GroupSet& set) {
  std::vector<std::set<int>> before(set.groups.size());
  for (int id = 0; id < static_cast<int>(set.graph.nodes.size()); ++id) {
    if (set.group_of[id] < 0) continue;
    set.waits.for_each_successor(id, [&](int next) {
      if (set.group_of[next] != set.group_of[id]) before[set.group_of[next]].insert(set.group_of[id]);
    });
  }
  std::vector<int> recorded;
  for (const Group& group : set.groups) recorded.push_back(group.members.back().node);
  std::vector<Group> ordered;
  for (int g : order_by_need(before, recorded)) ordered.push_back(set.groups[g]);
  if (ordered.size() != set.groups.size()) throw std::logic_error("[schedule] groups form a cycle");
  return ordered;
}

}  // namespace

ScheduledGraph schedule(Graph graph, const ScheduleLimits& limits) {
  Materialized made = materialize(std::move(graph), limits.max_bindings);
  ScheduledGraph out;
  out.graph = std::move(made.graph);
  settle_sizes(out.graph, anything_varies(out.graph));
  out.placed = std::move(made.placed);
  out.outputs = std::move(made.outputs);
  out.free_nodes = find_free_nodes(out.graph);
  const bool fuse = limits.passes.has(Pass::fuse);
  if (!fuse) std::fill(out.free_nodes.begin(), out.free_nodes.end(), false);

  Dependencies waits(out.graph, out.free_nodes, out.outputs);
  write_cycles_apart(out.outputs, waits);
  GroupSet set{out.graph, out.free_nodes, limits, waits, {}, std::vector<int>(out.graph.nodes.size(), -1)};
  group_vertices(set);
  if (fuse && limits.passes.has(Pass::cheap)) recompute_cheap(set);
  if (fuse && limits.passes.has(Pass::siblings)) merge_siblings(set);
  write_hazards_apart(out.outputs, set);
  out.groups = in_order(set);
  return out;
}

}  // namespace heddle
