// Rules for elementwise vertices: constants, identities, casts.
#include <cmath>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/rules_patterns.h"

namespace heddle {
namespace {

// ---- fold
std::optional<int> fold_choice(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::where_op) return std::nullopt;
  const std::optional<double> c = graph.constant(node.inputs[0]);
  return c ? std::optional(node.inputs[*c != 0 ? 1 : 2]) : std::nullopt;
}

std::optional<int> fold_cast(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::cast_op || !graph.is_full(node.inputs[0])) return std::nullopt;
  const double value = graph.at(node.inputs[0]).attrs.real;
  // A float beyond an integer's range saturates, on the device (core/lower/emit_convert.cpp); rounded() would wrap it.
  if (is_float(graph.at(node.inputs[0]).dtype) && is_integer(node.dtype) &&
      rounded(value, node.dtype) != std::trunc(value))
    return std::nullopt;
  return graph.make_full(node.shape, node.dtype, rounded(value, node.dtype));
}

// All inputs constant: compute on the host.
std::optional<int> fold(Simplifier& graph, IrNode& node) {
  if (node.op == &ops::cast_op || node.op == &ops::where_op || node.inputs.size() > 3) return std::nullopt;
  double v[3] = {0, 0, 0};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<double> c = graph.constant(node.inputs[i]);
    if (!c) return std::nullopt;
    v[i] = *c;
  }
  const DType in = node.inputs.empty() ? node.dtype : graph.at(node.inputs[0]).dtype;
  if (is_float(in))
    return node.op->host_float
               ? std::optional(graph.make_full(node.shape, node.dtype,
                                               rounded(node.op->host_float(v[0], v[1], v[2]), node.dtype)))
               : std::nullopt;
  constexpr double exact = 9007199254740992.0;  // 2^53: beyond it a double does not hold the integer
  if (!node.op->host_int || std::abs(v[0]) > exact || std::abs(v[1]) > exact) return std::nullopt;
  const int64_t value =
      node.op->host_int(static_cast<int64_t>(v[0]), static_cast<int64_t>(v[1]), static_cast<int64_t>(v[2]));
  if (std::abs(static_cast<double>(value)) > exact) return std::nullopt;
  return graph.make_full(node.shape, node.dtype, static_cast<double>(value));
}

// ---- identities
bool is(const std::optional<double>& c, double value) { return c && *c == value; }

std::optional<int> divide(Simplifier& graph, IrNode& node, const std::optional<double>& divisor) {
  const int x = node.inputs[0];
  if (is(divisor, 1)) return x;
  // Division by a power of two is a multiplication, exactly.
  int exponent = 0;
  const bool always = (graph.at(node.inputs[1]).varies & varies::numbers) == 0;
  const bool exact = always && divisor && *divisor != 0 && std::abs(std::frexp(*divisor, &exponent)) == 0.5 &&
                     std::abs(exponent) < 64 && rounded(1 / *divisor, node.dtype) == 1 / *divisor;
  if (!exact) return std::nullopt;
  return graph.make(
      {&ops::mul_op, {}, {x, graph.make_full(node.shape, node.dtype, 1 / *divisor)}, node.shape, node.dtype});
}

std::optional<int> identity(Simplifier& graph, IrNode& node) {
  if (node.op == &ops::cast_op && graph.at(node.inputs[0]).dtype == node.dtype) return node.inputs[0];
  if (node.op == &ops::where_op && node.inputs[1] == node.inputs[2]) return node.inputs[1];
  if (node.inputs.size() != 2) return std::nullopt;
  const int x = node.inputs[0], y = node.inputs[1];
  const std::optional<double> cx = graph.constant(x), cy = graph.constant(y);
  // x + 0 keeps x except for -0 + 0 = 0; adding -0 is exact, so only the sign of a zero can differ.
  if (node.op == &ops::add_op) return is(cy, 0) ? std::optional(x) : is(cx, 0) ? std::optional(y) : std::nullopt;
  if (node.op == &ops::sub_op && is(cy, 0)) return x;
  if (node.op == &ops::mul_op) return is(cy, 1) ? std::optional(x) : is(cx, 1) ? std::optional(y) : std::nullopt;
  if (node.op == &ops::div_op) return divide(graph, node, cy);
  if (node.op == &ops::pow_op) {
    if (is(cy, 1)) return x;
    if (is(cy, 2)) return graph.make({&ops::mul_op, {}, {x, x}, node.shape, node.dtype});
    if (is(cy, 0.5)) return std::nullopt;  // pow(-0, 0.5) and pow(-inf, 0.5) differ from sqrt
  }
  return std::nullopt;
}

// ---- casts
// Does `to` hold every value of `from`?
bool holds(DType to, DType from) {
  if (to == from) return true;
  const auto bits = [](DType t) { return 8 * static_cast<int>(size_of(t)); };
  const auto significant = [&](DType t) {
    return t == DType::f64 ? 53 : t == DType::f32 ? 24 : t == DType::f16 ? 11 : 8;
  };
  const bool is_signed = from == DType::i8 || from == DType::i32 || from == DType::i64;
  if (from == DType::boolean) return true;
  if (is_float(from)) return (to == DType::f32 && bits(from) == 16) || to == DType::f64;
  if (is_float(to)) return bits(from) - is_signed <= significant(to);
  if (to == DType::boolean) return false;
  const bool to_signed = to != DType::u8;
  return is_signed ? to_signed && bits(to) >= bits(from) : bits(to) - to_signed >= bits(from);
}

// A cast that lost nothing does not matter to the next one. Numbers out of range are an exception: from integers they
// wrap, from floats not.
std::optional<int> cast_of_cast(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::cast_op || graph.at(node.inputs[0]).op != &ops::cast_op) return std::nullopt;
  const IrNode& inner = graph.at(node.inputs[0]);
  const DType from = graph.at(inner.inputs[0]).dtype;
  if (!holds(inner.dtype, from)) return std::nullopt;
  if (is_float(inner.dtype) != is_float(from) && !is_float(node.dtype) && !holds(node.dtype, from)) return std::nullopt;
  node.inputs[0] = inner.inputs[0];
  if (from == node.dtype) return node.inputs[0];
  return graph.make(node);
}

}  // namespace

std::span<const Rule> elementwise_rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules{{Pass::fold, fold_cast},
                            {Pass::fold, fold_choice},
                            {Pass::fold, fold},
                            {Pass::casts, cast_of_cast},
                            {Pass::identities, identity}};
    rules.insert(rules.end(), row_rules().begin(), row_rules().end());
    rules.insert(rules.end(), activation_rules().begin(), activation_rules().end());
    return rules;
  }();
  return all;
}

}  // namespace heddle
