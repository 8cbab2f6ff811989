#include "heddle/distributed/op_factors.h"

#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::distributed {
namespace {

using Factors = std::vector<Factor>;

// Dimension d of every input and of the result.
Factors alike(const Node& node) {
  Factors factors;
  for (int d = 0; d < node.shape.rank(); ++d) factors.push_back({std::vector<int>(node.inputs.size(), d), d});
  return factors;
}

// The same without those for which `whole` says so.
template <class Whole>
Factors alike_but(const Node& node, const Whole& whole) {
  Factors factors = alike(node);
  std::erase_if(factors, [&](const Factor& f) { return whole(f.result); });
  return factors;
}

Factor::Reduction reduction_of(const OpDef& op) {
  if (&op == &ops::sum_op) return Factor::Reduction::sum;
  if (&op == &ops::max_op) return Factor::Reduction::max;
  return &op == &ops::min_op ? Factor::Reduction::min : Factor::Reduction::none;
}

Factors reduced(const Node& node) {
  const bool one_axis = node.op == &ops::argmax_op || node.op == &ops::argmin_op;
  const Factor::Reduction reduction = reduction_of(*node.op);
  Factors factors;
  int result = 0;
  for (int d = 0; d < node.inputs[0]->shape.rank(); ++d) {
    const bool gone = one_axis ? d == axis_of(node.attrs) : names_axis(node.attrs, d);
    if (!gone) factors.push_back({{d}, result++});
    if (gone && reduction != Factor::Reduction::none) factors.push_back({{d}, -1, reduction});
  }
  return factors;
}

Factors permuted(const Node& node) {
  Factors factors;
  for (int d = 0; d < node.shape.rank(); ++d)
    factors.push_back({{static_cast<int>(order_of(node.attrs)[static_cast<size_t>(d)])}, d});
  return factors;
}

// Runs of dimensions with one product; their outermost ones are cut alike.
Factors reshaped(const Node& node) {
  const Shape &from = node.inputs[0]->shape, &to = node.shape;
  Factors factors;
  if (to.numel() == 0) return factors;
  for (int i = 0, j = 0; i < from.rank() && j < to.rank();) {
    while (i < from.rank() && from[i] == 1) ++i;
    while (j < to.rank() && to[j] == 1) ++j;
    if (i == from.rank() || j == to.rank()) break;
    factors.push_back({{i}, j});
    int64_t left = from[i++], right = to[j++];
    while (left != right) (left < right ? left : right) *= left < right ? from[i++] : to[j++];
  }
  return factors;
}

Factors sliced(const Node& node) {
  const SliceAttrs range(node.attrs);
  return alike_but(node, [&](int d) {
    return node.shape[d] != node.inputs[0]->shape[d] || range.step[static_cast<size_t>(d)] != 1;
  });
}

Factors of_movement(const Node& node) {
  const OpDef* op = node.op;
  const Shape& from = node.inputs[0]->shape;
  if (op == &ops::reshape_op) return reshaped(node);
  if (op == &ops::permute_op) return permuted(node);
  if (op == &ops::slice_op) return sliced(node);
  if (op == &ops::expand_op || op == &ops::pad_op)
    return alike_but(node, [&](int d) { return node.shape[d] != from[d]; });
  if (op == &ops::flip_op) return alike_but(node, [&](int d) { return names_axis(node.attrs, d); });
  if (op == &ops::concat_op) return alike_but(node, [&](int d) { return d == axis_of(node.attrs); });
  return {};
}

Factors multiplied(const Node& node) {
  const int rank = node.shape.rank(), m = rank - 2, n = rank - 1;
  Factors factors;
  for (int d = 0; d < m; ++d) factors.push_back({{d, d}, d});
  factors.push_back({{m, -1}, m});
  factors.push_back({{-1, n}, n});
  factors.push_back({{n, m}, -1, Factor::Reduction::sum});
  return factors;
}

// x.shape[:axis] + indices + x.shape[axis + 1:]
Factors taken(const Node& node) {
  const int axis = axis_of(node.attrs), rank = node.inputs[0]->shape.rank(), picks = node.inputs[1]->shape.rank();
  Factors factors;
  for (int d = 0; d < rank; ++d) {
    if (d != axis) factors.push_back({{d, -1}, d < axis ? d : d + picks - 1});
  }
  for (int d = 0; d < picks; ++d) factors.push_back({{-1, d}, axis + d});
  return factors;
}

Factors gathered(const Node& node) {
  const int axis = axis_of(node.attrs);
  Factors factors = alike_but(node, [&](int d) { return d != axis && node.shape[d] != node.inputs[0]->shape[d]; });
  for (Factor& factor : factors) {
    if (factor.result == axis) factor.inputs[0] = -1;
  }
  return factors;
}

// Along one axis, which stays or, of logsumexp, goes.
Factors of_rows(const Node& node) {
  const int axis = axis_of(node.attrs);
  Factors factors;
  for (int d = 0, result = 0; d < node.inputs[0]->shape.rank(); ++d) {
    if (d != axis) factors.push_back({{d}, result});
    if (d != axis || node.op != &ops::logsumexp_op) ++result;
  }
  return factors;
}

}  // namespace

Factors factors_of(const Node& node) {
  const OpDef* op = node.op;
  if (op->kind == OpKind::elementwise) return alike(node);
  if (op->kind == OpKind::reduce) return reduced(node);
  if (op->kind == OpKind::movement) return of_movement(node);
  if (op == &ops::matmul_op) return multiplied(node);
  if (op == &ops::take_op) return taken(node);
  if (op == &ops::gather_op) return gathered(node);
  if (op == &ops::softmax_op || op == &ops::log_softmax_op || op == &ops::logsumexp_op) return of_rows(node);
  if (op == &ops::cross_entropy_op) return {{{0, 0}, 0}};
  if (op == &ops::cumsum_op) return alike_but(node, [&](int d) { return d == ScanAttrs(node.attrs).axis; });
  if (op == &ops::argsort_op) return alike_but(node, [&](int d) { return d == node.shape.rank() - 1; });
  return {};
}

}  // namespace heddle::distributed
