#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

// Every element counts in the results from its own place on: a sum the other way.
void running_sum(RuleCall& call) {
  const ScanAttrs d(call.node.attrs);
  call.result[0] = cumsum(call.g, d.axis, d.exclusive, !d.reverse);
}

// x moved by k places along the axis, away from its beginning in the direction of the sums; `border` moves in.
Tensor moved(const Tensor& x, const ScanAttrs& d, int64_t k, double border) {
  const int64_t n = x.dim(d.axis);
  if (d.reverse) k = -k;
  k = std::clamp<int64_t>(k, -n, n);
  std::vector<std::pair<int64_t, int64_t>> around(static_cast<size_t>(x.rank()));
  around[static_cast<size_t>(d.axis)] = {std::max<int64_t>(k, 0), std::max<int64_t>(-k, 0)};
  const int64_t start = k >= 0 ? 0 : -k;
  return slice(pad(x, around, border), d.axis, {start, start + n, 1});
}

// dL/dx_i is the product of what stands before i, times s_i: the sum over j >= i of g_j and the product of what stands
// between i and j. s is the recurrence s_i = g_i + x_{i+1} s_{i+1}, solved by doubling. No division, so that zeros are
// right, and so are their higher derivatives.
void running_product(RuleCall& call) {
  const ScanAttrs d(call.node.attrs);
  const bool half = call.node.dtype == DType::f16 || call.node.dtype == DType::bf16;
  const Tensor x = half ? cast(call.in[0], DType::f32) : call.in[0];
  const Tensor before = cumprod(x, d.axis, true, d.reverse);
  Tensor s = half ? cast(call.g, DType::f32) : call.g;
  if (d.exclusive) s = moved(s, d, -1, 0);  // element i is in the results behind it alone
  Tensor factor = moved(x, d, -1, 0);
  for (int64_t k = 1; k < x.dim(d.axis); k *= 2) {
    s = s + factor * moved(s, d, -k, 0);
    if (2 * k < x.dim(d.axis)) factor = factor * moved(factor, d, -k, 0);
  }
  call.result[0] = cast(before * s, call.node.dtype);
}

// dL/dx_i is the sum over j >= i of g_j e^(x_i - y_j), that is e^(x_i - y_i) t_i with t_i = g_i + e^(y_i - y_{i+1})
// t_{i+1}: no exponent is above 0, whatever the values. Solved by doubling, as above. Where all so far is -infinity
// there is no gradient.
void running_log_sum(RuleCall& call) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const ScanAttrs d(call.node.attrs);
  const Tensor &x = call.in[0], &y = call.out;
  const Tensor nothing = y == -infinity, next = moved(y, d, -1, infinity);
  Tensor factor = exp(where(next == -infinity, 0, y - next));
  Tensor t = call.g;
  for (int64_t k = 1; k < x.dim(d.axis); k *= 2) {
    t = t + factor * moved(t, d, -k, 0);
    if (2 * k < x.dim(d.axis)) factor = factor * moved(factor, d, -k, 0);
  }
  call.result[0] = where(nothing, 0, exp(where(nothing, 0, x - y)) * t);
}

}  // namespace

void add_scan_rules(RuleTable& table) {
  table[&ops::cumsum_op].rule = running_sum;
  table[&ops::cumprod_op].rule = running_product;
  table[&ops::logcumsumexp_op].rule = running_log_sum;
  table[&ops::cummax_op].reason = "cummax() gathers its values, which have the gradient";
}

}  // namespace heddle::autograd
