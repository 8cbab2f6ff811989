#include <algorithm>
#include <vector>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

std::vector<int> as_ints(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

void permuted(RuleCall& call) {
  const std::vector<int64_t>& order = order_of(call.node.attrs);
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  call.result[0] = permute(call.g, back);
}

void expanded(RuleCall& call) {
  const Shape& from = call.in[0].shape();
  std::vector<int> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] != call.g.dim(axis)) axes.push_back(axis);
  }
  // An empty list of axes would mean all of them.
  call.result[0] = axes.empty() ? call.g : sum(call.g, axes, true);
}

// g with step - 1 zeros behind each entry of `axis`, but for the last: as a reshape, a pad and a reshape, at rank 4 or
// less.
Tensor spaced(const Tensor& g, int axis, int64_t step) {
  const Shape& shape = g.shape();
  const int64_t count = shape[axis];
  if (step == 1 || count <= 1) return g;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const Tensor padded = pad(reshape(g, Shape{outer, count, 1, inner}), {{0, 0}, {0, 0}, {0, step - 1}, {0, 0}});
  const Tensor line = slice(reshape(padded, Shape{outer, count * step, inner}), 1, {0, (count - 1) * step + 1, 1});
  return reshape(line, shape.with(axis, (count - 1) * step + 1));
}

// Puts g where the slice was read, zeros elsewhere.
void sliced(RuleCall& call) {
  const Shape& from = call.in[0].shape();
  const size_t rank = static_cast<size_t>(from.rank());
  if (call.g.numel() == 0) {
    call.result[0] = zeros_like(call.in[0]);
    return;
  }
  Tensor g = call.g;
  std::vector<std::pair<int64_t, int64_t>> around(rank);
  std::vector<int> reversed;
  const SliceAttrs slice(call.node.attrs);
  for (size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t start = slice.start[i], step = slice.step[i], count = call.g.dim(axis);
    const int64_t last = start + (count - 1) * step;
    if (step < 0) reversed.push_back(axis);
    around[i] = {std::min(start, last), from[axis] - 1 - std::max(start, last)};
  }
  if (!reversed.empty()) g = flip(g, reversed);
  for (size_t i = 0; i < rank; ++i) g = spaced(g, static_cast<int>(i), std::abs(slice.step[i]));
  call.result[0] = pad(g, around);
}

void padded(RuleCall& call) {
  const Shape& from = call.in[0].shape();
  std::vector<Slice> ranges;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int64_t before = border_of(call.node.attrs)[static_cast<size_t>(axis)];
    ranges.push_back({before, before + from[axis], 1});
  }
  call.result[0] = slice(call.g, ranges);
}

void concatenated(RuleCall& call) {
  const int axis = axis_of(call.node.attrs);
  int64_t at = 0;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const int64_t size = call.in[i].dim(axis);
    if (call.wants(i)) call.result[i] = slice(call.g, axis, {at, at + size, 1});
    at += size;
  }
}

}  // namespace

void add_movement_rules(RuleTable& table) {
  table[&ops::reshape_op].rule = [](RuleCall& call) { call.result[0] = reshape(call.g, call.in[0].shape()); };
  table[&ops::permute_op].rule = permuted;
  table[&ops::expand_op].rule = expanded;
  table[&ops::slice_op].rule = sliced;
  table[&ops::flip_op].rule = [](RuleCall& call) { call.result[0] = flip(call.g, as_ints(axes_of(call.node.attrs))); };
  table[&ops::pad_op].rule = padded;
  table[&ops::concat_op].rule = concatenated;
}

}  // namespace heddle::autograd
