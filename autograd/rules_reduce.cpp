#include <algorithm>
#include <vector>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

// The reduced tensor again over the shape it was reduced from.
Tensor spread(const Tensor& reduced, const std::vector<int64_t>& axes, const Shape& shape) {
  Shape kept = shape;
  for (const int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  return expand(reshape(reduced, kept), shape);
}

// Elements equal to the extreme share the cotangent evenly.
void extreme(RuleCall& call) {
  const Tensor& x = call.in[0];
  const std::vector<int64_t>& axes = axes_of(call.node.attrs);
  const std::vector<int> over(axes.begin(), axes.end());
  const Tensor hit = cast(x == spread(call.out, axes, x.shape()), x.dtype());
  const Tensor share = call.g / sum(hit, over);
  call.result[0] = hit * spread(share, axes, x.shape());
}

// Row i of x (rows, n) moved right by k (left when negative), with ones moved in.
Tensor shift(const Tensor& x, int64_t k) {
  const int64_t n = x.dim(1);
  if (k >= 0) return slice(pad(x, {{0, 0}, {k, 0}}, 1), 1, {0, n, 1});
  return slice(pad(x, {{0, 0}, {0, -k}}, 1), 1, {-k, n - k, 1});
}

// Product of all others in the row, for each element of (rows, n): the product of those before times the product of
// those behind, by doubling. No division, so zeros are right, and so are their higher derivatives.
Tensor product_of_others(const Tensor& x) {
  Tensor before = shift(x, 1);
  Tensor behind = shift(x, -1);
  for (int64_t k = 1; k < x.dim(1); k *= 2) {
    before = before * shift(before, k);
    behind = behind * shift(behind, -k);
  }
  return before * behind;
}

void product(RuleCall& call) {
  const Tensor& x = call.in[0];
  const std::vector<int64_t>& axes = axes_of(call.node.attrs);
  if (x.numel() == 0) {
    call.result[0] = zeros_like(x);
    return;
  }
  // Reduced axes last, as one: (rows, n).
  std::vector<int> order;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  const Tensor front = permute(x, order);
  const int64_t rows = call.out.numel();
  const Tensor others = product_of_others(reshape(front, Shape{rows, x.numel() / rows}));
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  call.result[0] = permute(reshape(others, front.shape()), back) * spread(call.g, axes, x.shape());
}

}  // namespace

void add_reduce_rules(RuleTable& table) {
  table[&ops::sum_op].rule = [](RuleCall& call) {
    call.result[0] = spread(call.g, axes_of(call.node.attrs), call.in[0].shape());
  };
  table[&ops::max_op].rule = extreme;
  table[&ops::min_op].rule = extreme;
  table[&ops::prod_op].rule = product;
}

}  // namespace heddle::autograd
