// Batching rules of movement, running sums, sorts and indexing.
#include "heddle/autograd/batching.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

using Ints = std::vector<int64_t>;

Tensor reshaped(const BatchCall& call) { return call.record({call.in[0]}, {}, call.shape()); }

Tensor permuted(const BatchCall& call) {
  Ints order{0};
  for (const int64_t axis : order_of(call.attrs())) order.push_back(axis + 1);
  return call.record({call.in[0]}, Attrs{order}, call.shape());
}

Tensor sliced(const BatchCall& call) {
  const Attrs attrs = call.attrs();
  const SliceAttrs one(attrs);
  Ints start{0}, step{1};
  start.insert(start.end(), one.start.begin(), one.start.end());
  step.insert(step.end(), one.step.begin(), one.step.end());
  return call.record({call.in[0]}, slice_attrs(start, step), call.shape());
}

Tensor flipped(const BatchCall& call) {
  Attrs attrs = call.attrs();
  for (int64_t& axis : attrs.ints) ++axis;
  return call.record({call.in[0]}, std::move(attrs), call.shape());
}

Tensor padded(const BatchCall& call) {
  Attrs attrs = call.attrs();
  attrs.ints.insert(attrs.ints.begin(), 0);
  return call.record({call.in[0]}, std::move(attrs), call.shape());
}

// ints[0] is the axis.
Tensor along_axis(const BatchCall& call) {
  Attrs attrs = call.attrs();
  ++attrs.ints[0];
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < call.in.size(); ++i) inputs.push_back(call.lifted(i));
  return call.record(inputs, std::move(attrs), call.shape());
}

// Always along the last axis.
Tensor sorted(const BatchCall& call) { return call.record({call.in[0]}, call.attrs(), call.shape()); }

std::vector<int> range(int from, int to) {
  std::vector<int> axes;
  for (int axis = from; axis < to; ++axis) axes.push_back(axis);
  return axes;
}
std::vector<int> joined(std::initializer_list<std::vector<int>> parts) {
  std::vector<int> all;
  for (const std::vector<int>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// 0, 1, 2, ... along the first axis of `like`.
Tensor example_numbers(const Tensor& like) {
  const int64_t size = like.dim(0);
  Shape column{size};
  for (int axis = 1; axis < like.rank(); ++axis) column.push_back(1);
  return expand(reshape(arange(0, static_cast<double>(size), 1, like.dtype(), &like.device()), column), like.shape());
}

// The first two axes as one.
Tensor folded(const Tensor& x) {
  Shape shape{x.dim(0) * x.dim(1)};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(x.dim(axis));
  return reshape(x, shape);
}

// Each example reads its own slices: all of them become one axis, into which the indices of an example are moved.
// Before that they must be what take() makes of them: negative ones count from the end, then they are clamped.
Tensor taken_by_example(const BatchCall& call, int axis) {
  const Tensor &x = call.in[0], &indices = call.in[1];  // (B, pre, n, post), (B, I)
  if (indices.numel() == 0 || x.numel() == 0) return zeros(call.shape(), x.dtype(), &x.device());
  const int rank = x.rank(), pre = axis, post = rank - axis - 2, index_rank = indices.rank() - 1;
  const double size = static_cast<double>(x.dim(axis + 1));
  const Tensor rows = folded(permute(x, joined({{0, axis + 1}, range(1, axis + 1), range(axis + 2, rank)})));
  const Tensor inside = minimum(maximum(where(indices < 0, indices + size, indices), 0), size - 1);
  const Tensor found = take(rows, inside + example_numbers(indices) * size, 0);  // (B, I, pre, post)
  const int after = 1 + index_rank;
  return permute(found,
                 joined({{0}, range(after, after + pre), range(1, after), range(after + pre, after + pre + post)}));
}

Tensor taken(const BatchCall& call) {
  const int axis = axis_of(call.attrs());
  if (call.mapped[0] && call.mapped[1]) return taken_by_example(call, axis);
  if (call.mapped[0]) return call.record({call.in[0], call.in[1]}, Attrs{{axis + 1}}, call.shape());
  // x[:axis] + B + I + x[axis + 1:]: the mapped axis to the front.
  const Tensor found = take(call.in[0], call.in[1], axis);
  return permute(found, joined({{axis}, range(0, axis), range(axis + 1, found.rank())}));
}

Tensor swapped(const Tensor& x) { return permute(x, joined({{1, 0}, range(2, x.rank())})); }

// base (R, C), indices (n), u (n, C)
Tensor scattered(const BatchCall& call) {
  const Tensor base = call.lifted(0), source = call.lifted(2);
  if (!call.mapped[1]) return swapped(index_add(swapped(base), call.in[1], swapped(source)));
  const Tensor& indices = call.in[1];
  const double rows = static_cast<double>(base.dim(1));
  const Tensor place = where(indices >= 0 && indices < rows, indices + example_numbers(indices) * rows, -1);
  return reshape(index_add(folded(base), folded(place), folded(source)), call.shape());
}

}  // namespace

void add_movement_batching(BatchTable& table) {
  table[&ops::reshape_op].rule = reshaped;
  table[&ops::expand_op].rule = reshaped;
  table[&ops::permute_op].rule = permuted;
  table[&ops::slice_op].rule = sliced;
  table[&ops::flip_op].rule = flipped;
  table[&ops::pad_op].rule = padded;
  table[&ops::concat_op].rule = along_axis;
}

void add_index_batching(BatchTable& table) {
  table[&ops::take_op].rule = taken;
  table[&ops::gather_op].rule = along_axis;
  table[&ops::scatter_rows_op].rule = scattered;
  table[&ops::unpack_blocks_op].rule = [](const BatchCall& call) {
    return call.record(call.in, call.attrs(), call.shape());
  };
  table[&ops::argsort_op].rule = sorted;
  table[&ops::cumsum_op].rule = along_axis;
  table[&ops::cumprod_op].rule = along_axis;
  table[&ops::cummax_op].rule = along_axis;
  table[&ops::logcumsumexp_op].rule = along_axis;
}

}  // namespace heddle::autograd
