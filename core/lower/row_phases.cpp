#include "heddle/core/lower/row_phases.h"

#include <algorithm>

#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// Computing such an element again costs more than reading it back from the first-level cache.
constexpr int dear = 8;

}  // namespace

RowPhases::RowPhases(const ScheduledGraph& scheduled, const Group& group) : scheduled_(scheduled), group_(group) {
  int number = 0;  // in a name: a kernel's text must not depend on where its vertices stand in the graph
  for (const Member& member : group.members) {
    const int d = reductions_below(member.node);
    const IrNode& node = graph().nodes[member.node];
    if (node.op->kind != OpKind::reduce) continue;
    const size_t phase = static_cast<size_t>(d - 1);
    if (phases_.size() <= phase) phases_.resize(phase + 1);
    phases_[phase].push_back(Reducer(node, graph().nodes[node.inputs[0]].dtype, member.node, number++));
  }
  find_kept();
}

bool RowPhases::any(bool (*holds)(const Reducer&)) const {
  return std::any_of(phases_.begin(), phases_.end(),
                     [&](const auto& phase) { return std::any_of(phase.begin(), phase.end(), holds); });
}

bool RowPhases::is_inside(int id) const {
  const IrNode& node = graph().nodes[id];
  if (group_.find(id) || std::binary_search(group_.inlined.begin(), group_.inlined.end(), id) ||
      scheduled_.free_nodes[id])
    return true;
  // What is neither here nor stored by another kernel only changes how others are read.
  return node.leaf < 0 &&
         (node.op->kind == OpKind::movement || node.op == &ops::take_op || node.op == &ops::gather_op ||
          node.op->kind == OpKind::constant || node.op->kind == OpKind::random);
}

int RowPhases::reductions_below(int id) {
  if (const auto known = depth_.find(id); known != depth_.end()) return known->second;
  const IrNode& node = graph().nodes[id];
  int most = 0;
  if (is_inside(id)) {
    for (int input : node.inputs) most = std::max(most, reductions_below(input));
    most += node.op->kind == OpKind::reduce;
  }
  return depth_[id] = most;
}

void RowPhases::dear_members(int id, std::set<int>& seen, std::set<int>& found) const {
  const IrNode& node = graph().nodes[id];
  if (!is_inside(id) || node.op->kind == OpKind::reduce || !seen.insert(id).second) return;
  const Member* member = group_.find(id);
  const bool number = node.dtype != DType::boolean;
  if (member && member->level == Level::full && node.op->kind == OpKind::elementwise && node.op->cost >= dear && number)
    found.insert(id);
  for (int input : node.inputs) dear_members(input, seen, found);
}

void RowPhases::find_kept() {
  std::map<int, std::pair<size_t, int>> uses;  // first pass, passes
  for (size_t pass = 0; pass <= phases_.size(); ++pass) {
    std::set<int> seen, found;
    if (pass < phases_.size()) {
      for (const Reducer& r : phases_[pass]) dear_members(graph().nodes[r.node()].inputs[0], seen, found);
    } else {
      for (const Member& member : group_.members) {
        if (member.stored && member.level == Level::full) dear_members(member.node, seen, found);
      }
    }
    for (int id : found) ++uses.try_emplace(id, pass, 0).first->second.second;
  }
  for (const auto& [id, use] : uses) {
    if (use.second > 1) kept_.push_back({id, use.first});
  }
}

}  // namespace heddle
