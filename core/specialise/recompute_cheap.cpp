#include "heddle/core/specialise/recompute_cheap.h"

#include <algorithm>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/uses.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"

namespace heddle {
namespace {

class CheapRecomputer {
 public:
  explicit CheapRecomputer(const Grouping& g) : g_(g) {}

  void run() {
    for (size_t id = 0; id < g_.graph.nodes.size(); ++id) try_vertex(static_cast<int>(id));
  }

 private:
  const IrNode& at(int id) const { return g_.graph.nodes[static_cast<size_t>(id)]; }
  Group& group_of(int id) { return g_.groups[static_cast<size_t>(g_.group_of[static_cast<size_t>(id)])]; }
  uint64_t bytes(int id) const { return static_cast<uint64_t>(at(id).shape.numel()) * size_of(at(id).dtype); }

  void try_vertex(int id) {
    const IrNode& node = at(id);
    if (g_.group_of[static_cast<size_t>(id)] < 0 || g_.free_nodes[static_cast<size_t>(id)]) return;
    if (node.op->kind != OpKind::elementwise || node.op == &copy_op || as_user(*node.op) != nullptr ||
        node.op->cost > 2)
      return;
    const Member* member = group_of(id).find(id);
    if (!member || !member->stored || g_.outputs.contains(id)) return;
    const std::vector<int> sources = sources_of(id);
    if (sources.empty()) return;
    std::map<int, Group> changed;
    for (const int user : g_.users[static_cast<size_t>(id)]) {
      const int h = g_.group_of[static_cast<size_t>(user)];
      if (h < 0) return;
      if (h == g_.group_of[static_cast<size_t>(id)] || changed.contains(h)) continue;
      Group group = g_.groups[static_cast<size_t>(h)];
      if (!may_compute(group, id)) return;
      group.inlined.insert(std::lower_bound(group.inlined.begin(), group.inlined.end(), id), id);
      if (!g_.fits(group)) return;
      changed.emplace(h, std::move(group));
    }
    if (!changed.empty()) apply(id, sources, changed);
  }

  // What `id` is computed from, where all of it lies in memory and is read with no more bytes than `id`; else nothing.
  std::vector<int> sources_of(int id) const {
    std::vector<int> sources;
    uint64_t read = 0;
    for (int input : at(id).inputs) {
      bool turned = false;  // read in another order than it lies
      while (is_view_op(*at(input).op)) {
        turned = turned || at(input).op != &ops::reshape_op;
        input = at(input).inputs[0];
      }
      const IrNode& source = at(input);
      turned = turned || (source.leaf >= 0 && !g_.graph.leaves[static_cast<size_t>(source.leaf)].view.is_dense());
      if (turned && 4 * bytes(input) > bytes(id)) return {};
      if (source.leaf < 0 && (source.op->kind == OpKind::constant || g_.free_nodes[static_cast<size_t>(input)])) {
        if (!lasts(input)) return {};
        continue;
      }
      if (source.leaf >= 0) {
        if (!lasts(input)) return {};
      } else if (!is_stored(input)) {
        return {};
      }
      if (std::find(sources.begin(), sources.end(), input) == sources.end()) read += bytes(input);
      sources.push_back(input);
    }
    return read <= bytes(id) + bytes(id) / 8 ? sources : std::vector<int>{};
  }

  // Whether no leaf that a leaf or free vertex is computed from is overwritten during the graph.
  bool lasts(int id) const {
    std::vector<int> stack{id};
    std::set<int> seen;
    while (!stack.empty()) {
      const IrNode& node = at(stack.back());
      stack.pop_back();
      if (node.leaf >= 0 && g_.writers.contains(g_.graph.leaves[static_cast<size_t>(node.leaf)].slot)) return false;
      for (const int input : node.inputs) {
        if (seen.insert(input).second) stack.push_back(input);
      }
    }
    return true;
  }

  bool is_stored(int id) const {
    const int g = g_.group_of[static_cast<size_t>(id)];
    const Member* member = g < 0 ? nullptr : g_.groups[static_cast<size_t>(g)].find(id);
    return member && member->stored;
  }

  // Generated code, that reads each element about once.
  bool may_compute(const Group& group, int id) const {
    if (group.kind == GroupKind::join || group.kind == GroupKind::loop) return false;
    for (const Use& use : external_uses(g_.graph, group, g_.free_nodes)) {
      if (use.node == id && use.operand) return false;
    }
    return true;
  }

  void apply(int id, const std::vector<int>& sources, std::map<int, Group>& changed) {
    const std::vector<int> users = g_.users[static_cast<size_t>(id)];
    Group& own = group_of(id);
    std::find_if(own.members.begin(), own.members.end(), [&](const Member& m) { return m.node == id; })->stored = false;
    for (auto& [h, group] : changed) g_.groups[static_cast<size_t>(h)] = std::move(group);
    for (const int source : sources) {
      if (at(source).leaf >= 0) continue;
      std::vector<int>& readers = g_.users[static_cast<size_t>(source)];
      readers.insert(readers.end(), users.begin(), users.end());
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    }
    if (std::any_of(own.members.begin(), own.members.end(), [](const Member& m) { return m.stored; })) return;
    drop(own, changed.begin()->first);
  }

  // Nobody reads what the group computes: its vertices belong to `heir` from now on, and hold up nobody else.
  void drop(Group& group, int heir) {
    for (const Member& member : group.members) leave(member.node, heir);
    for (const int id : group.inlined) leave(id, heir);
    group.members.clear();
    group.inlined.clear();
  }
  void leave(int id, int heir) {
    g_.group_of[static_cast<size_t>(id)] = heir;
    g_.users[static_cast<size_t>(id)].clear();
  }

  const Grouping& g_;
};

}  // namespace

void recompute_cheap_values(const Grouping& g) { CheapRecomputer(g).run(); }

}  // namespace heddle
