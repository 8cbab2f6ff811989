#include "heddle/core/schedule/schedule.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/ir/uses.h"
#include "heddle/core/schedule/dependencies.h"
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

// Of each group, the length of the longest way to it; shorter than right for groups on a cycle, which in_order()
// reports.
std::vector<int> depths(const std::vector<std::set<int>>& before) {
  const size_t count = before.size();
  std::vector<std::vector<int>> after(count);
  std::vector<size_t> waiting(count);
  std::vector<int> depth(count, 0), ready;
  for (size_t g = 0; g < count; ++g) {
    waiting[g] = before[g].size();
    for (int b : before[g]) after[static_cast<size_t>(b)].push_back(static_cast<int>(g));
    if (waiting[g] == 0) ready.push_back(static_cast<int>(g));
  }
  while (!ready.empty()) {
    const int g = ready.back();
    ready.pop_back();
    for (int next : after[static_cast<size_t>(g)]) {
      depth[static_cast<size_t>(next)] = std::max(depth[static_cast<size_t>(next)], depth[static_cast<size_t>(g)] + 1);
      if (--waiting[static_cast<size_t>(next)] == 0) ready.push_back(next);
    }
  }
  return depth;
}

// Depth first from the groups that nobody waits for, as recorded; what a group needs is computed right before it, the
// longest way first: the gradient that came through all layers before the activation that is computed again for it.
// before[g]: groups that g waits for; recorded_last[g]: the last of its vertices. Groups on a cycle are left out.
std::vector<int> order_by_need(const std::vector<std::set<int>>& before, const std::vector<int>& recorded_last) {
  const int count = static_cast<int>(before.size());
  const std::vector<int> depth = depths(before);
  const auto recorded = [&](int g) { return recorded_last[static_cast<size_t>(g)]; };
  std::vector<std::vector<int>> needs(count);
  std::vector<bool> is_needed(count, false);
  for (int g = 0; g < count; ++g) {
    needs[g].assign(before[g].begin(), before[g].end());
    std::sort(needs[g].begin(), needs[g].end(),
              [&](int a, int b) { return std::pair(-depth[a], recorded(a)) < std::pair(-depth[b], recorded(b)); });
    for (int needed : needs[g]) is_needed[needed] = true;
  }
  std::vector<int> stack, order;
  std::vector<bool> seen(count, false);
  std::vector<size_t> next(count, 0);
  std::set<std::pair<int, int>> roots;
  for (int g = 0; g < count; ++g) {
    if (!is_needed[g]) roots.insert({recorded(g), g});
  }
  for (const auto& [id, root] : roots) {
    stack.push_back(root);
    seen[root] = true;
    while (!stack.empty()) {
      const int g = stack.back();
      if (next[g] == needs[g].size()) {
        order.push_back(g);
        stack.pop_back();
      } else if (const int needed = needs[g][next[g]++]; !seen[needed]) {
        seen[needed] = true;
        stack.push_back(needed);
      }
    }
  }
  return order;
}

// The order in which groups are lowered, before core/schedule/kernel_order.h looks at memory.
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
  Materialized made = materialize(std::move(graph), limits.max_bindings, limits.max_binding_bytes);
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
