#include <vector>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

// take and gather count negative indices from the end and clamp what is still outside; the scatters ignore what is
// outside. This is the first reading in terms of the second.
Tensor clamped(const Tensor& indices, int64_t size) {
  const Tensor positive = where(indices < 0, indices + static_cast<double>(size), indices);
  return minimum(maximum(positive, 0), static_cast<double>(size - 1));
}

// Sums the slices of g into the places they were taken from.
void taken(RuleCall& call) {
  if (!call.wants(0)) return;
  const Tensor &x = call.in[0], &indices = call.in[1], &g = call.g;
  const int axis = axis_of(call.node.attrs);
  if (g.numel() == 0 || x.numel() == 0) {
    call.result[0] = zeros_like(x);
    return;
  }
  const int64_t size = x.dim(axis);
  const int64_t count = indices.numel();
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.dim(i);
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  const Tensor flat = clamped(reshape(indices, Shape{count}), size);
  if (outer == 1) {
    const Tensor rows =
        index_add(zeros(Shape{size, inner}, x.dtype(), &x.device()), flat, reshape(g, Shape{count, inner}));
    call.result[0] = reshape(rows, x.shape());
    return;
  }
  const Tensor source = permute(reshape(g, Shape{outer, count, inner}), {1, 0, 2});
  const Tensor rows = index_add(zeros(Shape{size, outer, inner}, x.dtype(), &x.device()), flat, source);
  call.result[0] = reshape(permute(rows, {1, 0, 2}), x.shape());
}

void gathered(RuleCall& call) {
  if (!call.wants(0)) return;
  const Tensor &x = call.in[0], &indices = call.in[1];
  const int axis = axis_of(call.node.attrs);
  if (call.g.numel() == 0 || x.numel() == 0) {
    call.result[0] = zeros_like(x);
    return;
  }
  call.result[0] = scatter_add(zeros_like(x), axis, clamped(indices, x.dim(axis)), call.g);
}

// base passes g on; u gets the rows of g that its rows went to, and nothing for an index outside.
void scattered(RuleCall& call) {
  const Tensor &base = call.in[0], &indices = call.in[1], &source = call.in[2];
  if (call.wants(0)) call.result[0] = call.g;
  if (!call.wants(2)) return;
  if (source.numel() == 0 || base.numel() == 0) {
    call.result[2] = zeros_like(source);
    return;
  }
  const Tensor inside = indices >= 0 && indices < static_cast<double>(base.dim(0));
  Shape column = source.shape();
  for (int axis = 1; axis < source.rank(); ++axis) column = column.with(axis, 1);
  call.result[2] = where(expand(reshape(inside, column), source.shape()), take(call.g, indices, 0), 0);
}

// x gets what was not written over; u gets the rows of g where its rows were the last to be written.
void copied(RuleCall& call) {
  const Tensor &x = call.in[0], &indices = call.in[1], &source = call.in[2];
  const int axis = axis_of(call.node.attrs);
  const int64_t count = indices.dim(0), size = x.dim(axis);
  if (call.wants(0)) call.result[0] = index_copy(call.g, axis, indices, zeros_like(source));
  if (!call.wants(2)) return;
  const Tensor number = arange(0, static_cast<double>(count), 1, DType::i32, &x.device());
  const Tensor last = index_copy(full(Shape{size}, -1, DType::i32, &x.device()), 0, indices, number);  // written there
  const Tensor counts =
      indices >= 0 && indices < static_cast<double>(size) && take(last, clamped(indices, size), 0) == number;
  Shape aligned(std::vector<int64_t>(static_cast<size_t>(x.rank()), 1));
  call.result[2] = where(expand(reshape(counts, aligned.with(axis, count)), source.shape()),
                         take(call.g, clamped(indices, size), axis), 0);
}

}  // namespace

void add_index_rules(RuleTable& table) {
  table[&ops::take_op].rule = taken;
  table[&ops::gather_op].rule = gathered;
  table[&ops::scatter_rows_op].rule = scattered;
  table[&ops::copy_rows_op].rule = copied;
}

}  // namespace heddle::autograd
