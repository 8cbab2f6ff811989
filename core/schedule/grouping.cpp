#include "heddle/core/schedule/grouping.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "heddle/core/functions/user/user_definition.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/ir/bodies.h"
#include "heddle/core/ir/group_access.h"
#include "heddle/core/ir/picks.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// Where `id` is one value per row of an elementwise group's domain and comes from a reduction over the rest of that
// domain: that rest.
std::optional<Shape> row_split(const Graph& graph, const Group& group, int id) {
  const IrNode& node = graph.nodes[id];
  if (group.kind != GroupKind::elementwise || node.op->kind != OpKind::elementwise) return std::nullopt;
  const Shape rows = squeezed(node.shape);
  const Shape& domain = group.domain;
  if (rows.rank() >= domain.rank() || !std::equal(rows.begin(), rows.end(), domain.begin())) return std::nullopt;
  const Shape inner(domain.dims().subspan(rows.rank()));
  return comes_from_reduction(graph, id, rows, inner, 8) ? std::optional(inner) : std::nullopt;
}

// What a group becomes when it computes one more vertex, as shapes and accesses allow. Elementwise work joins where it
// is read at the group's own index, or is cheap to repeat; a reduction takes the elementwise work over its rows before
// and after it; a matmul or body takes what follows it as its epilogue. Limits, cycles and hazards are GroupSet's.
class Joining {
 public:
  Joining(const Graph& graph, const std::vector<bool>& free_nodes) : graph_(graph), free_(free_nodes) {}

  // The group with `id`, whose users are all there already, in it; nothing when their kinds or shapes do not fit.
  // `only`: nobody else needs the value, so it is not stored.
  std::optional<Group> joined(const Group& group, int id, bool only) const {
    const std::vector<Use> uses = uses_of(id, group);
    if (uses.empty()) return std::nullopt;
    Group joined = group;
    return join(joined, id, uses, only) ? std::optional(std::move(joined)) : std::nullopt;
  }

 private:
  const IrNode& at(int id) const { return graph_.nodes[id]; }

  bool join(Group& group, int id, const std::vector<Use>& uses, bool only) const {
    switch (at(id).op->kind) {
      case OpKind::elementwise:
        return join_elementwise(group, id, uses, only);
      case OpKind::reduce:
        return join_reduce(group, id, uses, only);
      case OpKind::contraction:
        return join_before(group, GroupKind::matmul, id, uses, only);
      case OpKind::body:
        return body_row(*at(id).op).epilogue && join_before(group, GroupKind::body, id, uses, only);
      default:
        return false;
    }
  }

  std::vector<Use> uses_of(int id, const Group& group) const {
    std::vector<Use> uses = external_uses(graph_, group, free_);
    std::erase_if(uses, [&](const Use& use) { return use.node != id; });
    return uses;
  }

  // The level at which every use reads `id` at the group's own index, if there is one.
  std::optional<Level> own_level(int id, const Group& group, const std::vector<Use>& uses) const {
    std::optional<Level> level;
    for (const Use& use : uses) {
      const std::optional<Index> access = use.operand ? std::nullopt : linear_access(graph_, use);
      if (!access) return std::nullopt;
      std::optional<Level> here;
      const Shape shape = squeezed(at(id).shape);
      if (group.kind != GroupKind::reduce) {
        if (shape == squeezed(group.domain) && is_dense_over(*access, group.domain, 0)) here = Level::element;
      } else if (shape == group.domain && is_dense_over(*access, group.domain, 0)) {
        here = Level::row;  // read once a row, or the same by every element of a row
      } else if (use.level == Level::full && shape == full_shape(group) &&
                 is_dense_over(*access, full_shape(group), 0)) {
        here = Level::full;
      }
      if (!here || (level && *level != *here)) return std::nullopt;
      level = here;
    }
    return level;
  }

  bool join_elementwise(Group& group, int id, const std::vector<Use>& uses, bool only) const {
    if (const std::optional<Level> level = own_level(id, group, uses)) {
      group.add(id, *level, !only);
      return true;
    }
    // A hand-written body reads its operand from memory or through a prologue: it cannot take what is computed for
    // others.
    const auto operand = [](const Use& use) { return use.operand; };
    if (std::any_of(uses.begin(), uses.end(), operand)) {
      if (!only || !is_prologue(graph_, free_, group, id, uses)) return false;
      group.add_inlined(id);
      return true;
    }
    if (const std::optional<Shape> inner = row_split(graph_, group, id)) {
      to_rows(group, squeezed(at(id).shape), *inner);
      if (const std::optional<Level> level = own_level(id, group, uses_of(id, group))) {
        group.add(id, *level, !only);
        return true;
      }
    }
    if (!only) return false;
    if (!cheap_to_inline(id, group, uses)) return false;
    group.add_inlined(id);
    return true;
  }

  // How often a kernel may hold the same vertex at different indices. Each reader that is itself there twice doubles
  // it: eight shifted sums in a row (a scan by doubling) are 256 copies of the first, and compiled for minutes.
  static constexpr size_t most_repeats = 32;

  // Total work of computing `id` inside the group, against computing it once: cheap ops may be repeated, dear ones may
  // not.
  bool cheap_to_inline(int id, const Group& group, const std::vector<Use>& uses) const {
    double elements = 0;
    for (const Use& use : uses) {
      elements += static_cast<double>(use.level == Level::full ? full_shape(group).numel() : group.domain.numel());
    }
    const double own = static_cast<double>(std::max<int64_t>(1, at(id).shape.numel()));
    return elements <= 1.01 * own || (at(id).op->cost <= 2 && uses.size() <= most_repeats);
  }

  // An elementwise group becomes a reduce group over rows x inner: what it computed is now computed for every element
  // of a row.
  static void to_rows(Group& group, const Shape& rows, const Shape& inner) {
    group.kind = GroupKind::reduce;
    group.domain = rows;
    group.inner = inner;
    for (Member& member : group.members) member.level = Level::full;
  }

  bool join_reduce(Group& group, int id, const std::vector<Use>& uses, bool only) const {
    const IrNode& node = at(id);
    const Shape rows = squeezed(node.shape), inner = reduced_shape(graph_, node);
    if (group.kind == GroupKind::elementwise) {
      if (own_level(id, group, uses) == Level::element) {  // what follows the reduction, once a row
        group.kind = GroupKind::reduce;
        group.inner = inner;
        for (Member& member : group.members) member.level = Level::row;
      } else {
        Shape full = rows;
        for (int64_t d : inner) full.push_back(d);
        if (full != group.domain || rows.rank() == 0) return false;
        to_rows(group, rows, inner);
      }
    }
    if (group.kind != GroupKind::reduce || group.domain != rows || group.inner != inner) return false;
    if (own_level(id, group, uses_of(id, group)) != Level::row) return false;
    group.add(id, Level::row, !only);
    group.anchor = id;
    return true;
  }

  // A matmul or body whose epilogue the elementwise group becomes.
  bool join_before(Group& group, GroupKind kind, int id, const std::vector<Use>& uses, bool only) const {
    if (group.kind != GroupKind::elementwise || own_level(id, group, uses) != Level::element) return false;
    group.kind = kind;
    group.domain = at(id).shape;
    group.anchor = id;
    group.add(id, Level::element, !only);
    return true;
  }

  const Graph& graph_;
  const std::vector<bool>& free_;
};

// Loops of a user's text run once for an element: inside a loop over elements their iterations multiply.
bool may_loop_together(const Graph& graph, const Group& group, int id) {
  const bool elementwise = graph.nodes[id].op->kind == OpKind::elementwise && group.kind == GroupKind::elementwise;
  if (elementwise) return true;
  const auto loops = [&](int vertex) { return loops_of(*graph.nodes[vertex].op) > 0; };
  return !loops(id) &&
         std::none_of(group.members.begin(), group.members.end(), [&](const Member& m) { return loops(m.node); }) &&
         std::none_of(group.inlined.begin(), group.inlined.end(), loops);
}

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
  set.groups[set.group_of[loop]].add(id, Level::element, true);
}

// Copies what is picked from more than a binding covers (core/specialise/materialize.h).
bool copies_picks(const GroupSet& set, int id) {
  const IrNode& node = set.at(id);
  return node.op == &copy_op && picks_beyond(set.graph, node.inputs[0], set.limits.max_binding_bytes);
}

bool try_join(GroupSet& set, int id, int g, bool only) {
  const Group& group = set.groups[g];
  const bool picks = std::any_of(group.members.begin(), group.members.end(),
                                 [&](const Member& member) { return copies_picks(set, member.node); });
  if (picks && set.at(id).op->kind != OpKind::elementwise) return false;
  if (group.kind == GroupKind::join || group.kind == GroupKind::loop) return false;
  if (set.limits.counted_loops && !may_loop_together(set.graph, group, id)) return false;
  std::optional<Group> joined = Joining(set.graph, set.free_nodes).joined(group, id, only);
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
                        [&](int g) { return row_split(set.graph, set.groups[g], id).has_value(); });
  return std::any_of(candidates.begin(), candidates.end(), [&](int g) { return try_join(set, id, g, only); });
}

}  // namespace

void group_vertices(GroupSet& set) {
  for (int id = static_cast<int>(set.graph.nodes.size()); id-- > 0;) {
    if (!set.waits.is_kernel(id)) continue;
    if (is_loop(*set.at(id).op))
      place_in_loop(set, id);
    else if (!set.limits.passes.has(Pass::fuse) || copies_picks(set, id) || !try_users(set, id))
      set.add(group_of_one(set.graph, id));
  }
}

}  // namespace heddle
