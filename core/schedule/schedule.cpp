#include "core/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "core/functions/user/user_definition.h"
#include "core/graph/loop.h"
#include "core/ir/bodies.h"
#include "core/ir/dynamic_sizes.h"
#include "core/ir/group_access.h"
#include "core/op/primitives.h"
#include "core/schedule/group_order.h"
#include "core/specialise/materialize.h"
#include "core/specialise/recompute_cheap.h"

namespace heddle {

namespace {

class Scheduler {
 public:
  Scheduler(Graph graph, const ScheduleLimits& limits) : limits_(limits) {
    Materialized made = materialize(std::move(graph), limits.max_bindings);
    out_.graph = std::move(made.graph);
    settle_sizes(out_.graph, anything_varies(out_.graph));
    out_.placed = std::move(made.placed);
    out_.outputs = std::move(made.outputs);
  }

  ScheduledGraph run() {
    free_ = find_free_nodes(graph());
    if (!limits_.fuse) std::fill(free_.begin(), free_.end(), false);
    out_.free_nodes = free_;
    group_of_.assign(graph().nodes.size(), -1);
    find_users();
    find_stores();
    demote_cyclic_assigns();
    for (int id = static_cast<int>(graph().nodes.size()); id-- > 0;) {
      if (is_anchored(id)) place(id);
    }
    if (limits_.fuse && limits_.cheap) {
      recompute_cheap_values(
          {graph(), free_, is_output_, writers_,
           [&](const Group& group) { return fits_kernel(graph(), free_, group, limits_.max_bindings); }, groups_,
           group_of_, users_});
      drop_empty_groups();
    }
    if (limits_.fuse && limits_.siblings) merge_siblings();
    demote_self_hazards();
    order_groups();
    return std::move(out_);
  }

 private:
  const Graph& graph() const { return out_.graph; }
  const IrNode& at(int id) const { return out_.graph.nodes[id]; }
  // A free vertex is computed by its users; it is a kernel of its own only when somebody wants its value.
  bool is_anchored(int id) const { return is_anchor_kind(at(id)) && (!free_[id] || is_output_.contains(id)); }

  // users_[n]: kernels that read n's value. readers_[slot]: kernels that read an input storage.
  void find_users() {
    for (const OutputPlan& output : out_.outputs) is_output_.insert(output.base);
    users_.resize(graph().nodes.size());
    for (int id = 0; id < static_cast<int>(graph().nodes.size()); ++id) {
      if (!is_anchored(id)) continue;
      std::set<int> seen;
      for (int input : at(id).inputs) find_sources(input, id, seen);
    }
  }

  void find_sources(int id, int user, std::set<int>& seen) {
    if (!seen.insert(id).second) return;
    const IrNode& node = at(id);
    if (node.leaf >= 0) {
      const int slot = graph().leaves[node.leaf].slot;
      if (slot >= 0) readers_[slot].insert(user);
      return;
    }
    if (is_anchor_kind(node) && !free_[id]) {
      if (users_[id].empty() || users_[id].back() != user) users_[id].push_back(user);
      return;
    }
    for (int input : node.inputs) find_sources(input, user, seen);
  }

  void find_stores() {
    for (const OutputPlan& output : out_.outputs) {
      if (output.assign_slot >= 0 && !output.copy_back) writers_[output.assign_slot] = output.base;
    }
  }

  // After `id` come: its users, and, when it reads an input storage that is overwritten, the writer.
  void for_each_successor(int id, const auto& visit) const {
    for (int user : users_[id]) visit(user);
    for (int writer : writes_after_[id]) visit(writer);
  }

  void rebuild_write_order() {
    writes_after_.assign(graph().nodes.size(), {});
    for (const auto& [slot, writer] : writers_) {
      const auto readers = readers_.find(slot);
      if (readers == readers_.end()) continue;
      for (int reader : readers->second) {
        if (reader != writer) writes_after_[reader].push_back(writer);
      }
    }
  }

  // In-place writes that cannot be ordered after all reads of the old value (a swap, say) are computed apart and copied
  // at the end.
  void demote_cyclic_assigns() {
    rebuild_write_order();
    std::vector<int> waiting(graph().nodes.size(), 0);
    std::vector<int> ready;
    for (int id = 0; id < static_cast<int>(waiting.size()); ++id) {
      if (is_anchored(id)) for_each_successor(id, [&](int next) { ++waiting[next]; });
    }
    for (int id = 0; id < static_cast<int>(waiting.size()); ++id) {
      if (is_anchored(id) && waiting[id] == 0) ready.push_back(id);
    }
    std::vector<bool> done(waiting.size(), false);
    while (!ready.empty()) {
      const int id = ready.back();
      ready.pop_back();
      done[id] = true;
      for_each_successor(id, [&](int next) {
        if (--waiting[next] == 0) ready.push_back(next);
      });
    }
    for (OutputPlan& output : out_.outputs) {
      if (output.assign_slot >= 0 && !done[output.base]) demote(output);
    }
    rebuild_write_order();
  }

  void demote(OutputPlan& output) {
    output.copy_back = true;
    writers_.erase(output.assign_slot);
  }

  // ---- grouping, users before producers
  void place(int id) {
    if (is_loop(*at(id).op)) return place_in_loop(id);
    if (limits_.fuse && try_users(id)) return;
    Group group;
    const IrNode& node = at(id);
    group.kind = node.op == &join_op                    ? GroupKind::join
                 : node.op->kind == OpKind::contraction ? GroupKind::matmul
                 : node.op->kind == OpKind::reduce      ? GroupKind::reduce
                 : node.op->kind == OpKind::body        ? GroupKind::body
                                                        : GroupKind::elementwise;
    group.domain =
        group.kind == GroupKind::elementwise || group.kind == GroupKind::reduce ? squeezed(node.shape) : node.shape;
    Level level = Level::element;
    if (group.kind == GroupKind::reduce) {
      level = Level::row;
      group.inner = reduced_shape(graph(), node);
    }
    if (group.kind != GroupKind::elementwise && group.kind != GroupKind::join) group.anchor = id;
    group.members.push_back({id, level, true});
    group_of_[id] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(group));
  }

  // A loop and all its results are one group.
  void place_in_loop(int id) {
    const int loop = at(id).op == &ops::loop_op ? id : at(id).inputs[0];
    if (group_of_[loop] < 0) {
      group_of_[loop] = static_cast<int>(groups_.size());
      Group group;
      group.kind = GroupKind::loop;
      group.anchor = loop;
      group.members.push_back({loop, Level::element, false});
      groups_.push_back(std::move(group));
    }
    if (id == loop) return;
    group_of_[id] = group_of_[loop];
    insert(groups_[static_cast<size_t>(group_of_[loop])], id, Level::element, true);
  }

  bool try_users(int id) {
    std::vector<int> candidates;
    for (int user : users_[id]) {
      if (std::find(candidates.begin(), candidates.end(), group_of_[user]) == candidates.end())
        candidates.push_back(group_of_[user]);
    }
    const bool only = candidates.size() == 1 && !is_output_.contains(id);
    // A value that belongs to the rows of some group goes there first, so that its reduction can follow.
    std::stable_partition(candidates.begin(), candidates.end(),
                          [&](int g) { return row_split(id, groups_[g]).has_value(); });
    return std::any_of(candidates.begin(), candidates.end(), [&](int g) { return try_join(id, g, only); });
  }

  // The group with `id` in it replaces group g, unless that breaks a rule.
  bool accept(Group joined, int id, int g) {
    if (!fits_kernel(graph(), free_, joined, limits_.max_bindings) || has_hazard(joined)) return false;
    const int before = group_of_[id];
    group_of_[id] = g;
    if (makes_cycle(g, id)) {
      group_of_[id] = before;
      return false;
    }
    groups_[g] = std::move(joined);
    return true;
  }

  bool try_join(int id, int g, bool only) {
    if (groups_[g].kind == GroupKind::join || groups_[g].kind == GroupKind::loop) return false;
    if (limits_.counted_loops && !may_loop_together(id, groups_[g])) return false;
    const std::vector<Use> uses = uses_of(id, groups_[g]);
    if (uses.empty()) return false;
    Group joined = groups_[g];
    bool ok = false;
    switch (at(id).op->kind) {
      case OpKind::elementwise:
        ok = join_elementwise(joined, id, uses, only);
        break;
      case OpKind::reduce:
        ok = join_reduce(joined, id, uses, only);
        break;
      case OpKind::contraction:
        ok = join_before(joined, GroupKind::matmul, id, uses, only);
        break;
      case OpKind::body:
        ok = body_row(*at(id).op).epilogue && join_before(joined, GroupKind::body, id, uses, only);
        break;
      default:
        break;
    }
    return ok && accept(std::move(joined), id, g);
  }

  // Loops of a user's text run once for an element: inside a loop over elements their iterations multiply.
  bool may_loop_together(int id, const Group& group) const {
    const bool elementwise = at(id).op->kind == OpKind::elementwise && group.kind == GroupKind::elementwise;
    if (elementwise) return true;
    const auto loops = [&](int vertex) { return loops_of(*at(vertex).op) > 0; };
    return !loops(id) &&
           std::none_of(group.members.begin(), group.members.end(), [&](const Member& m) { return loops(m.node); }) &&
           std::none_of(group.inlined.begin(), group.inlined.end(), loops);
  }

  std::vector<Use> uses_of(int id, const Group& group) const {
    std::vector<Use> uses = external_uses(graph(), group, free_);
    std::erase_if(uses, [&](const Use& use) { return use.node != id; });
    return uses;
  }

  static void insert(Group& group, int id, Level level, bool stored) {
    const auto place = std::lower_bound(group.members.begin(), group.members.end(), id,
                                        [](const Member& m, int key) { return m.node < key; });
    group.members.insert(place, {id, level, stored});
  }
  static void inline_into(Group& group, int id) {
    group.inlined.insert(std::lower_bound(group.inlined.begin(), group.inlined.end(), id), id);
  }

  // The level at which every use reads `id` at the group's own index, if there is one.
  std::optional<Level> own_level(int id, const Group& group, const std::vector<Use>& uses) const {
    std::optional<Level> level;
    for (const Use& use : uses) {
      const std::optional<Index> access = use.operand ? std::nullopt : linear_access(graph(), use);
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
      insert(group, id, *level, !only);
      return true;
    }
    // A hand-written body reads its operand from memory or through a prologue: it cannot take what is computed for
    // others.
    const auto operand = [](const Use& use) { return use.operand; };
    if (std::any_of(uses.begin(), uses.end(), operand)) {
      if (!only || !is_prologue(graph(), free_, group, id, uses)) return false;
      inline_into(group, id);
      return true;
    }
    if (const std::optional<Shape> inner = row_split(id, group)) {
      to_rows(group, squeezed(at(id).shape), *inner);
      if (const std::optional<Level> level = own_level(id, group, uses_of(id, group))) {
        insert(group, id, *level, !only);
        return true;
      }
    }
    if (!only) return false;
    if (!cheap_to_inline(id, group, uses)) return false;
    inline_into(group, id);
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

  // If `id` is one value per row of an elementwise group's domain and comes from a reduction over the rest of that
  // domain: the rest.
  std::optional<Shape> row_split(int id, const Group& group) const {
    if (group.kind != GroupKind::elementwise || at(id).op->kind != OpKind::elementwise) return std::nullopt;
    const Shape rows = squeezed(at(id).shape);
    const Shape& domain = group.domain;
    if (rows.rank() >= domain.rank() || !std::equal(rows.begin(), rows.end(), domain.begin())) return std::nullopt;
    const Shape inner(domain.dims().subspan(rows.rank()));
    return comes_from_reduction(graph(), id, rows, inner, 8) ? std::optional(inner) : std::nullopt;
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
    const Shape rows = squeezed(node.shape), inner = reduced_shape(graph(), node);
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
    insert(group, id, Level::row, !only);
    group.anchor = id;
    return true;
  }

  // A matmul or body whose epilogue the elementwise group becomes.
  bool join_before(Group& group, GroupKind kind, int id, const std::vector<Use>& uses, bool only) const {
    if (group.kind != GroupKind::elementwise || own_level(id, group, uses) != Level::element) return false;
    group.kind = kind;
    group.domain = at(id).shape;
    group.anchor = id;
    insert(group, id, Level::element, !only);
    return true;
  }

  // ---- siblings: updates over the same elements that read the same memory become one kernel, which reads it once.
  // Only where all that is then stored outlives the graph: everything else would have to wait for the later of the two.
  void merge_siblings() {
    for (const auto& [slot, readers] : readers_) {
      int first = -1;
      std::set<int> tried;
      for (int reader : readers) {
        const int g = group_of_[reader];
        if (g == first || !tried.insert(g).second || !gives_output(groups_[g])) continue;
        if (first < 0)
          first = g;
        else
          merge(first, g);
      }
    }
    drop_empty_groups();
  }

  bool gives_output(const Group& group) const {
    return group.kind == GroupKind::elementwise &&
           std::any_of(group.members.begin(), group.members.end(),
                       [&](const Member& m) { return is_output_.contains(m.node); });
  }

  // A storage may hold many tensors: do the groups read one of them, whole?
  bool share_read(const Group& a, const Group& b) const {
    std::set<int> leaves;
    for (const Use& use : external_uses(graph(), a, free_)) {
      if (at(use.node).leaf >= 0 && at(use.node).shape.numel() == a.domain.numel()) leaves.insert(use.node);
    }
    const std::vector<Use> uses = external_uses(graph(), b, free_);
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return leaves.contains(use.node); });
  }

  // What one of two merged groups stored for the other alone is not stored any more. False when something is that does
  // not outlive the graph.
  bool keep_outputs_only(Group& group) const {
    for (Member& member : group.members) {
      if (!member.stored || is_output_.contains(member.node)) continue;
      const std::vector<int>& users = users_[member.node];
      if (!std::all_of(users.begin(), users.end(), [&](int user) { return group.find(user) != nullptr; })) return false;
      member.stored = false;
    }
    return true;
  }

  void merge(int g, int other) {
    if (groups_[g].domain != groups_[other].domain || !share_read(groups_[g], groups_[other])) return;
    Group joined = groups_[g];
    for (const Member& member : groups_[other].members) insert(joined, member.node, member.level, member.stored);
    for (int id : groups_[other].inlined) {
      if (!std::binary_search(joined.inlined.begin(), joined.inlined.end(), id)) inline_into(joined, id);
    }
    if (!keep_outputs_only(joined) || !fits_kernel(graph(), free_, joined, limits_.max_bindings) || has_hazard(joined))
      return;
    std::vector<int> own;  // what is computed in several groups may belong to a third one
    for (int id : groups_[other].inlined) {
      if (group_of_[id] == other) own.push_back(id);
    }
    const auto move_to = [&](int target) {
      for (const Member& member : groups_[other].members) group_of_[member.node] = target;
      for (int id : own) group_of_[id] = target;
    };
    move_to(g);
    std::swap(groups_[g], joined);
    if (makes_cycle(g, groups_[g].members[0].node)) {
      std::swap(groups_[g], joined);
      move_to(other);
      return;
    }
    groups_[other].members.clear();
    groups_[other].inlined.clear();
  }

  void drop_empty_groups() {
    std::vector<int> to(groups_.size(), -1);
    std::vector<Group> kept;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].members.empty()) continue;
      to[g] = static_cast<int>(kept.size());
      kept.push_back(std::move(groups_[g]));
    }
    groups_ = std::move(kept);
    for (int& g : group_of_) {
      if (g >= 0) g = to[static_cast<size_t>(g)];
    }
  }

  // ---- checks
  // Would an in-place write of this group meet a read, in the same kernel, of another element of the old value?
  bool has_hazard(const Group& group) const {
    for (const auto& [slot, writer] : writers_) {
      const Member* member = group.find(writer);
      if (member && reads_elsewhere(group, *member, slot)) return true;
    }
    return false;
  }

  // A body that only writes what differs from its first operand, while the others lie elsewhere.
  bool updates_in_place(const Group& group, int slot) const {
    if (group.kind != GroupKind::body || !body_row(*at(group.anchor).op).updates) return false;
    const std::vector<int>& inputs = at(group.anchor).inputs;
    return std::none_of(inputs.begin() + 1, inputs.end(), [&](int id) {
      while (is_view_op(*at(id).op)) id = at(id).inputs[0];
      return at(id).leaf >= 0 && graph().leaves[at(id).leaf].slot == slot;
    });
  }

  bool reads_elsewhere(const Group& group, const Member& writer, int slot) const {
    if (updates_in_place(group, slot)) return false;
    const Shape shape = writer.level == Level::full ? full_shape(group) : group.domain;
    // What belongs to a row is stored before the row's elements are computed, and those may ask for the old value then.
    const bool elements_follow =
        writer.level == Level::row && std::any_of(group.members.begin(), group.members.end(),
                                                  [](const Member& m) { return m.level == Level::full && m.stored; });
    for (const Use& use : external_uses(graph(), group, free_)) {
      const IrNode& node = at(use.node);
      if (node.leaf < 0 || graph().leaves[node.leaf].slot != slot) continue;
      const std::optional<Index> access = linear_access(graph(), use);
      const bool same = !elements_follow && !use.operand && use.level == writer.level &&
                        graph().leaves[node.leaf].view.is_dense() && access &&
                        at(use.node).dtype == at(writer.node).dtype && at(writer.node).shape.numel() == shape.numel() &&
                        is_dense_over(*access, shape, 0);
      if (!same) return true;
    }
    return false;
  }

  // Is there a path that leaves group g and comes back, with `id` counted as a member?
  bool makes_cycle(int g, int id) const {
    std::vector<int> stack;
    std::vector<bool> seen_groups(groups_.size(), false);
    std::vector<bool> seen(graph().nodes.size(), false);
    const auto expand = [&](int from, bool from_inside) {
      for_each_successor(from, [&](int next) {
        if (from_inside && group_of_[next] == g) return;
        if (!seen[next]) {
          seen[next] = true;
          stack.push_back(next);
        }
      });
    };
    const auto expand_group = [&](int group_index) {
      for (const Member& member : groups_[group_index].members) expand(member.node, group_index == g);
      for (int inlined : groups_[group_index].inlined) expand(inlined, group_index == g);
    };
    expand(id, true);
    expand_group(g);
    while (!stack.empty()) {
      const int next = stack.back();
      stack.pop_back();
      const int group = group_of_[next];
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

  // A vertex that alone reads its own target elsewhere (p = p^T p): computed apart, copied at the end.
  void demote_self_hazards() {
    for (OutputPlan& output : out_.outputs) {
      if (output.assign_slot < 0 || output.copy_back) continue;
      const Group& group = groups_[group_of_[output.base]];
      if (reads_elsewhere(group, *group.find(output.base), output.assign_slot)) demote(output);
    }
    rebuild_write_order();
  }

  void order_groups() {
    const int count = static_cast<int>(groups_.size());
    std::vector<std::set<int>> before(count);
    for (int id = 0; id < static_cast<int>(graph().nodes.size()); ++id) {
      if (group_of_[id] < 0) continue;
      for_each_successor(id, [&](int next) {
        if (group_of_[next] != group_of_[id]) before[group_of_[next]].insert(group_of_[id]);
      });
    }
    std::vector<int> recorded;
    for (const Group& group : groups_) recorded.push_back(group.members.back().node);
    for (int g : order_by_need(before, recorded)) out_.groups.push_back(groups_[g]);
    if (static_cast<int>(out_.groups.size()) != count) throw std::logic_error("[schedule] groups form a cycle");
  }

  ScheduleLimits limits_;
  ScheduledGraph out_;
  std::vector<bool> free_;
  std::set<int> is_output_;
  std::vector<std::vector<int>> users_;  // ascending
  std::map<int, std::set<int>> readers_;
  std::map<int, int> writers_;
  std::vector<std::vector<int>> writes_after_;
  std::vector<int> group_of_;
  std::vector<Group> groups_;
};

}  // namespace

ScheduledGraph schedule(Graph graph, const ScheduleLimits& limits) { return Scheduler(std::move(graph), limits).run(); }

}  // namespace heddle
