// Emitter: casts, and the rounding of 16-bit values that a kernel goes on with.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/graph/excess_precision.h"
#include "core/lower/emit.h"
#include "core/lower/emit_text.h"
#include "core/op/primitives.h"

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

// What lies in memory is loaded as it was stored; all else is computed by this kernel.
bool Emitter::computed_here(int id) const {
  const IrNode& node = graph().nodes[id];
  if (node.leaf >= 0 || node.op->kind == OpKind::constant) return false;
  if (node.op->kind == OpKind::movement || node.op->kind == OpKind::index) return true;
  return group_.find(id) || std::binary_search(group_.inlined.begin(), group_.inlined.end(), id) ||
         scheduled_.free_nodes[id];
}

bool Emitter::is_read(int id) {
  if (read_.empty()) {
    std::vector<int> open;
    for (const Member& member : group_.members) open.push_back(member.node);
    while (!open.empty()) {
      const int user = open.back();
      open.pop_back();
      if (!computed_here(user)) continue;
      for (int input : graph().nodes[user].inputs) {
        if (read_.insert(input).second) open.push_back(input);
      }
    }
  }
  return read_.contains(id);
}

std::string Emitter::round_to(DType dtype, const std::string& text) {
  uses_round_ = true;
  return fmt::format("{}({})", dtype == DType::f16 ? "t_round_f16" : "t_round_bf16", text);
}

bool Emitter::only_moves_halves() const {
  if (group_.kind != GroupKind::elementwise) return false;
  bool any = false;
  std::set<int> seen;
  std::vector<int> open;
  for (const Member& member : group_.members) open.push_back(member.node);
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    const IrNode& node = graph().nodes[id];
    const bool half = is_half(node.dtype);
    any = any || half;
    if (half && (node.op == &ops::iota_op || node.op->kind == OpKind::random)) return false;
    if (!computed_here(id)) continue;
    bool moved = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const DType from = graph().nodes[node.inputs[i]].dtype;
      const bool same = moves(*node.op, i) && from == node.dtype;
      if (is_half(from) && !same) return false;
      moved = moved || same;
      open.push_back(node.inputs[i]);
    }
    if (half && !moved) return false;
  }
  return any;
}

std::string_view Emitter::type_of(DType dtype) const {
  return moves_bits_ && is_half(dtype) ? "int" : dialect_type(dtype);
}

std::string Emitter::literal(double value, DType dtype) const {
  if (!moves_bits_ || !is_half(dtype)) return dialect_literal(value, dtype);
  uint16_t bits = 0;
  store_element(&bits, dtype, 0, value);
  return std::to_string(bits);
}

std::string Emitter::as_stored(int id, const std::string& text) {
  const IrNode& node = graph().nodes[id];
  if (!rounds_ || !is_half(node.dtype) || keeps_half(*node.op) || is_part_of_sum(*node.op, node.attrs) || !is_read(id))
    return text;
  return round_to(node.dtype, text);
}

std::string Emitter::compute_cast(int id, DType from, const std::string& x) {
  const IrNode& node = graph().nodes[id];
  if (is_float(from) && is_integer(node.dtype)) {
    saturating_.emplace(arith(from), node.dtype);
    return declare(node.dtype, fmt::format("{}({})", saturating_name(arith(from), node.dtype), x));
  }
  const bool same = arith(from) == arith(node.dtype);
  const bool widened = arith(node.dtype) == DType::i64 && is_integer(from);
  std::string text = same      ? x
                     : widened ? fmt::format("WIDEN({})", x)
                               : fmt::format("CAST({}, {})", dialect_type(node.dtype), x);
  if (is_half(node.dtype) && is_read(id) && !is_part_of_sum(*node.op, node.attrs))
    text = round_to(node.dtype, text);  // else the store rounds
  if (is_integer(node.dtype)) text = wrap_narrow(text, node.dtype);
  return text == x ? x : declare(node.dtype, text);
}

}  // namespace heddle
