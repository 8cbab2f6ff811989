#include "heddle/core/schedule/dependencies.h"

#include <algorithm>

#include "heddle/core/ir/group_access.h"

namespace heddle {

std::vector<bool> find_free_nodes(const Graph& graph) {
  constexpr int limit = 16;
  std::vector<int> cost(graph.nodes.size(), 0);
  std::vector<bool> free_nodes(graph.nodes.size(), false);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const IrNode& node = graph.nodes[id];
    cost[id] = node.leaf >= 0 || node.op->kind == OpKind::constant ? 0 : limit + 1;
    const bool scalar = node.shape.numel() == 1 && (node.op->kind == OpKind::elementwise || is_view_op(*node.op)) &&
                        node.op != &copy_op;
    const bool view = is_view_op(*node.op);
    if (!scalar && !view) continue;
    int total = view ? 0 : node.op->cost;
    for (int input : node.inputs) total += cost[input];
    cost[id] = std::min(total, limit + 1);
    free_nodes[id] = !view && total <= limit;
  }
  return free_nodes;
}

Dependencies::Dependencies(const Graph& graph, const std::vector<bool>& free_nodes,
                           const std::vector<OutputPlan>& outputs)
    : graph_(graph), free_(free_nodes), users_(graph.nodes.size()) {
  for (const OutputPlan& output : outputs) {
    outputs_.insert(output.base);
    if (output.in_place()) writers_[output.assign_slot] = output.base;
  }
  for (int id = 0; id < static_cast<int>(graph.nodes.size()); ++id) {
    if (!is_kernel(id)) continue;
    std::set<int> seen;
    for (int input : graph.nodes[id].inputs) find_sources(input, id, seen);
  }
  order_writes();
}

bool Dependencies::is_kernel(int id) const { return is_anchor_kind(graph_.nodes[id]) && (!free_[id] || is_output(id)); }

void Dependencies::find_sources(int id, int user, std::set<int>& seen) {
  if (!seen.insert(id).second) return;
  const IrNode& node = graph_.nodes[id];
  if (node.leaf >= 0) {
    const int slot = graph_.leaves[node.leaf].slot;
    if (slot >= 0) readers_[slot].insert(user);
    return;
  }
  if (is_anchor_kind(node) && !free_[id]) {
    if (users_[id].empty() || users_[id].back() != user) users_[id].push_back(user);
    return;
  }
  for (int input : node.inputs) find_sources(input, user, seen);
}

void Dependencies::write_apart(OutputPlan& output) {
  output.copy_back = true;
  writers_.erase(output.assign_slot);
}

void Dependencies::order_writes() {
  writes_after_.assign(graph_.nodes.size(), {});
  for (const auto& [slot, writer] : writers_) {
    const auto readers = readers_.find(slot);
    if (readers == readers_.end()) continue;
    for (int reader : readers->second) {
      if (reader != writer) writes_after_[reader].push_back(writer);
    }
  }
}

std::vector<bool> Dependencies::orderable() const {
  std::vector<int> waiting(graph_.nodes.size(), 0);
  std::vector<int> ready;
  for (int id = 0; id < static_cast<int>(waiting.size()); ++id) {
    if (is_kernel(id)) for_each_successor(id, [&](int next) { ++waiting[next]; });
  }
  for (int id = 0; id < static_cast<int>(waiting.size()); ++id) {
    if (is_kernel(id) && waiting[id] == 0) ready.push_back(id);
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
  return done;
}

}  // namespace heddle
