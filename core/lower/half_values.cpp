#include "heddle/core/lower/half_values.h"

#include <algorithm>
#include <array>
#include <vector>

#include "heddle/core/graph/excess_precision.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// Rows whose result is one of their operands, or a whole number no larger: of numbers that f16 or bf16 hold they give
// such a number.
bool keeps_half(const OpDef& op) {
  static const std::array exact{&ops::where_op, &ops::max_op,     &ops::min_op,     &ops::neg_op,     &ops::abs_op,
                                &ops::sign_op,  &ops::relu_op,    &ops::floor_op,   &ops::ceil_op,    &ops::round_op,
                                &ops::trunc_op, &ops::minimum_op, &ops::maximum_op, &ops::copysign_op};
  return std::find(exact.begin(), exact.end(), &op) != exact.end();
}

// Rows that give elements of this operand as they are.
bool moves(const OpDef& op, size_t operand) {
  if (op.kind == OpKind::movement || &op == &copy_op || &op == &ops::stop_gradient_op) return true;
  if (op.kind == OpKind::index) return operand == 0;
  return &op == &ops::where_op && operand > 0;
}

}  // namespace

HalfValues::HalfValues(const ScheduledGraph& scheduled, const Group& group)
    : scheduled_(scheduled), group_(group), rounds_(!excess_precision()), only_moved_(find_only_moved()) {}

bool HalfValues::computed_here(int id) const {
  const IrNode& node = scheduled_.graph.nodes[id];
  if (node.leaf >= 0 || node.op->kind == OpKind::constant) return false;
  if (node.op->kind == OpKind::movement || node.op->kind == OpKind::index) return true;
  return group_.find(id) || std::binary_search(group_.inlined.begin(), group_.inlined.end(), id) ||
         scheduled_.free_nodes[id];
}

bool HalfValues::is_read(int id) {
  if (read_.empty()) {
    std::vector<int> open;
    for (const Member& member : group_.members) open.push_back(member.node);
    while (!open.empty()) {
      const int user = open.back();
      open.pop_back();
      if (!computed_here(user)) continue;
      for (int input : scheduled_.graph.nodes[user].inputs) {
        if (read_.insert(input).second) open.push_back(input);
      }
    }
  }
  return read_.contains(id);
}

bool HalfValues::rounds(int id) {
  const IrNode& node = scheduled_.graph.nodes[id];
  return rounds_ && is_half(node.dtype) && !keeps_half(*node.op) && !is_part_of_sum(*node.op, node.attrs) &&
         is_read(id);
}

bool HalfValues::rounds_cast(int id) {
  const IrNode& node = scheduled_.graph.nodes[id];
  return is_half(node.dtype) && !is_part_of_sum(*node.op, node.attrs) && is_read(id);
}

bool HalfValues::find_only_moved() const {
  if (group_.kind != GroupKind::elementwise) return false;
  bool any = false;
  std::set<int> seen;
  std::vector<int> open;
  for (const Member& member : group_.members) open.push_back(member.node);
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const IrNode& node = scheduled_.graph.nodes[id];
    const bool half = is_half(node.dtype);
    any = any || half;
    if (half && (node.op == &ops::iota_op || node.op->kind == OpKind::random)) return false;
    if (!computed_here(id)) continue;
    bool moved = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const DType from = scheduled_.graph.nodes[node.inputs[i]].dtype;
      const bool same = moves(*node.op, i) && from == node.dtype;
      if (is_half(from) && !same) return false;
      moved = moved || same;
      open.push_back(node.inputs[i]);
    }
    if (half && !moved) return false;
  }
  return any;
}

}  // namespace heddle
