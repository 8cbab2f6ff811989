#include <cmath>
#include <numbers>
#include <optional>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

constexpr double two_over_sqrt_pi = 2 * std::numbers::inv_sqrtpi;

// d/dx of x Phi(x): Phi(x) + x phi(x).
Tensor gelu_slope(const Tensor& x) {
  const double inverse_root_two_pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return 0.5 * (1 + erf(x * (1 / std::numbers::sqrt2))) + x * (inverse_root_two_pi * exp(-0.5 * (x * x)));
}

// d/dx of 0.5 x (1 + tanh(u)), u = k (x + c x^3).
Tensor gelu_tanh_slope(const Tensor& x) {
  const double k = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double c = 0.044715;
  const Tensor squared = x * x;
  const Tensor t = tanh(k * (x + c * (squared * x)));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (k * (1 + 3 * c * squared));
}

// a / (x^2 + y^2); 0 at the origin, where an angle has no gradient, and for derivatives of any order.
Tensor over_squared_length(const Tensor& a, const Tensor& x, const Tensor& y) {
  const Tensor squared = x * x + y * y, origin = squared == 0;
  return where(origin, 0, a / where(origin, 1, squared));
}

Tensor silu_slope(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

// The number that every element of this node has, when the graph says so.
std::optional<double> constant_of(const Node& node) {
  const Node* at = &node;
  while (at->op == &ops::expand_op || at->op == &ops::reshape_op || at->op == &ops::cast_op) {
    if (at->inputs.empty()) return {};
    at = at->inputs[0].get();
  }
  if (at->op == &ops::full_op) return at->attrs.real;
  return {};
}

// y x^(y-1). A constant exponent keeps the graph small; x^0 is flat even at x = 0. Otherwise x = 0 with y = 0 is set
// aside: 0 * 0^-1 would be NaN where the slope is 0.
Tensor pow_slope_x(const Tensor& x, const Tensor& y) {
  if (const std::optional<double> c = constant_of(*y.node())) {
    if (*c == 0) return zeros_like(x);
    if (*c == 1) return ones_like(x);
    return *c == 2 ? 2 * x : *c * pow(x, *c - 1);
  }
  return y * pow(where(x == 0 && y == 0, 1, x), y - 1);
}

// x^y log x; at x = 0 with y >= 0 the limit 0 instead of 0 * -inf.
Tensor pow_slope_y(const Tensor& x, const Tensor& y, const Tensor& out) {
  return out * log(where(x == 0 && y >= 0, 1, x));
}

// What `mine` gets of g in a minimum or maximum: all when it wins, half on a tie; a NaN on either side lets g through,
// as in PyTorch. Beside a constant a tie gets nothing: such is a clamp, whose bounds are its flat side.
Tensor share_of(const Tensor& mine, const Tensor& other, const Tensor& wins, const Tensor& g) {
  if (constant_of(*other.node())) return where(wins, g, 0);
  const Tensor tie = mine == other;
  const Tensor unordered = mine != mine || other != other;
  return where(wins || unordered, g, where(tie, 0.5 * g, 0));
}

}  // namespace

void add_elementwise_rules(RuleTable& table) {
#define HEDDLE_GRAD_UNARY(name, dx)                                              \
  table[&ops::name##_op].rule = [](RuleCall& call) {                             \
    [[maybe_unused]] const Tensor &x = call.in[0], &out = call.out, &g = call.g; \
    if (call.wants(0)) call.result[0] = dx;                                      \
  };
#define HEDDLE_GRAD_BINARY(name, dx, dy)                                                          \
  table[&ops::name##_op].rule = [](RuleCall& call) {                                              \
    [[maybe_unused]] const Tensor &x = call.in[0], &y = call.in[1], &out = call.out, &g = call.g; \
    if (call.wants(0)) call.result[0] = dx;                                                       \
    if (call.wants(1)) call.result[1] = dy;                                                       \
  };
#define HEDDLE_NO_GRAD(name, why) table[&ops::name##_op].reason = why;
#include "heddle/autograd/rules_elementwise.inc"
#undef HEDDLE_GRAD_UNARY
#undef HEDDLE_GRAD_BINARY
#undef HEDDLE_NO_GRAD

  // x -> its dtype; what came from an integer ends there.
  table[&ops::cast_op].rule = [](RuleCall& call) { call.result[0] = cast(call.g, call.in[0].dtype()); };
  table[&ops::where_op].rule = [](RuleCall& call) {
    if (call.wants(1)) call.result[1] = where(call.in[0], call.g, 0);
    if (call.wants(2)) call.result[2] = where(call.in[0], 0, call.g);
  };
}

void add_reasons(RuleTable& table) {
  table[&ops::leaf_op].reason = "a leaf: its gradient is collected in grad()";
  table[&ops::loop_arg_op].reason = "an argument of a loop's body: the loop passes its gradient on";
  table[&ops::full_op].reason = "a constant";
  table[&ops::iota_op].reason = "a constant";
  table[&ops::argmax_op].reason = "its result is an integer index";
  table[&ops::argmin_op].reason = "its result is an integer index";
  table[&ops::argsort_op].reason = "its result is integer indices";
  table[&ops::unpack_blocks_op].reason = "its blocks are bytes";
  table[&ops::random_uniform_op].reason = "random bits depend on no tensor";
  table[&ops::stop_gradient_op].reason = "it stops gradients on purpose";
  table[&ops::assign_op].reason = "a value written in place begins a new history";
}

}  // namespace heddle::autograd
