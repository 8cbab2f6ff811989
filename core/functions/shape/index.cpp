// Indexing: take, gather, embedding, one_hot, scatter_add, index_add.
#include "heddle/core/functions/shape/index.h"

#include <fmt/format.h>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::check_index_dtype;
using build::product;
using build::record;

// Nothing can be read from an axis without elements, not even after clamping.
void refuse_empty_axis(const Tensor& x, int axis, const Tensor& indices, const char* op) {
  if (x.shape()[axis] != 0 || indices.numel() == 0) return;
  throw ShapeError(fmt::format("[{}] axis {} of {} has no elements to index", op, axis, x.shape().str()));
}

// 0, 1, 2, ... along `axis` of `shape`.
Tensor positions(const Shape& shape, int axis, DType dtype, DeviceContext& device) {
  return Tensor(make_node_on(device, ops::iota_op, RangeAttrs(axis).packed(), shape, dtype));
}

void check_scatter(const Tensor& x, int axis, const Tensor& indices, const Tensor& source) {
  check_index_dtype(indices, "scatter_add");
  bool fits = indices.rank() == x.rank() && source.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    const int64_t d = indices.shape()[i];
    fits = d <= source.shape()[i] && (i == axis || d <= x.shape()[i]);
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("[scatter_add] x is {}, indices {}, source {} along axis {}: ranks must be equal, indices no "
                    "larger than source, and "
                    "no larger than x but along the axis",
                    x.shape().str(), indices.shape().str(), source.shape().str(), axis));
  }
  if (source.dtype() != x.dtype()) {
    throw DTypeError(
        fmt::format("[scatter_add] x is {}, source {}; cast the source", name_of(x.dtype()), name_of(source.dtype())));
  }
  if (x.dtype() == DType::boolean)
    throw DTypeError("[scatter_add] bool has no addition; cast to an integer dtype first");
}

// The part of `source` that has an index.
Tensor cut_to(const Tensor& source, const Shape& shape) {
  std::vector<Slice> ranges;
  for (int64_t d : shape) ranges.push_back(Slice{0, d, 1});
  return slice(source, ranges);
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, int axis, Caller caller) {
  const CallerScope scope(caller);
  check_index_dtype(indices, "take");
  const int at = normalize_axis(axis, x.rank(), "take");
  refuse_empty_axis(x, at, indices, "take");
  build::watch_indices("take", indices, {.axis = at, .size = x.dim(at), .from_end = true});
  Shape shape;
  for (int i = 0; i < at; ++i) shape.push_back(x.shape()[i]);
  for (int64_t d : indices.shape()) shape.push_back(d);
  for (int i = at + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return record(ops::take_op, {&x, &indices}, axis_attrs(at), shape, x.dtype());
}

Tensor gather(const Tensor& x, int axis, const Tensor& indices, Caller caller) {
  const CallerScope scope(caller);
  check_index_dtype(indices, "gather");
  const int at = normalize_axis(axis, x.rank(), "gather");
  bool fits = indices.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == at || indices.shape()[i] <= x.shape()[i];
  if (!fits) {
    throw ShapeError(
        fmt::format("[gather] x is {}, indices are {} along axis {}: ranks must be equal and indices no larger than x "
                    "but along the axis; "
                    "take() indexes whole slices",
                    x.shape().str(), indices.shape().str(), at));
  }
  refuse_empty_axis(x, at, indices, "gather");
  build::watch_indices("gather", indices, {.axis = at, .size = x.dim(at), .from_end = true});
  return record(ops::gather_op, {&x, &indices}, axis_attrs(at), indices.shape(), x.dtype());
}

Tensor embedding(TensorArg argument, const Tensor& indices) {
  const CallerScope scope(argument.caller);
  const Tensor& weight = argument.tensor;
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("[embedding] the weight must be (rows, width), not {}", weight.shape().str()));
  }
  check_index_dtype(indices, "embedding");
  build::watch_indices("embedding", indices, {.size = weight.dim(0), .from_end = true});
  return take(weight, indices, 0);
}

Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype, Caller caller) {
  const CallerScope scope(caller);
  check_index_dtype(indices, "one_hot");
  if (classes <= 0)
    throw ValueError(fmt::format("[one_hot] the number of classes is {}; it must be positive", classes));
  build::watch_indices("one_hot", indices, {.axis = indices.rank(), .size = classes, .noun = "class"});
  Shape shape = indices.shape();
  shape.push_back(classes);
  const Tensor index = expand(unsqueeze(indices, -1), shape);
  return cast(eq(index, positions(shape, shape.rank() - 1, indices.dtype(), indices.device())), dtype);
}

namespace {

// x + sum over j of where(index[j] == r, source[j], 0): an elementwise-reduce-elementwise group, so one kernel without
// atomics, and the order of the sum is fixed. Work is rows times picks.
Tensor add_by_comparison(const Tensor& x, int at, const Tensor& indices, const Tensor& source) {
  const int64_t outer = product(indices.shape(), 0, at);
  const int64_t picks = indices.shape()[at];
  const int64_t inner = product(indices.shape(), at + 1, indices.rank());
  const int64_t rows = x.shape()[at];
  const Shape grid{outer, rows, picks, inner};
  const Shape narrow{outer, 1, picks, inner};
  const Tensor index = expand(reshape(indices, narrow), grid);
  const Tensor value = expand(reshape(cut_to(source, indices.shape()), narrow), grid);
  const Tensor hit = eq(index, positions(grid, 1, indices.dtype(), x.device()));
  const Tensor added = cast(sum(where(hit, value, 0), {2}), x.dtype());
  const Shape covered = indices.shape().with(at, rows);
  std::vector<std::pair<int64_t, int64_t>> rest;
  for (int i = 0; i < x.rank(); ++i) rest.emplace_back(0, x.shape()[i] - covered[i]);
  return x + pad(reshape(added, covered), rest);
}

// Every pick as a place in the flat x, -1 where the index is outside: rows of one element, which are added in sorted
// order.
Tensor add_by_order(const Tensor& x, int at, const Tensor& indices, const Tensor& source) {
  const auto strides = row_major_strides(x.shape());
  Tensor place = indices * static_cast<double>(strides[static_cast<size_t>(at)]);
  for (int d = 0; d < x.rank(); ++d) {
    if (d != at)
      place = place + positions(indices.shape(), d, indices.dtype(), x.device()) *
                          static_cast<double>(strides[static_cast<size_t>(d)]);
  }
  const Tensor inside = indices >= 0 && indices < static_cast<double>(x.dim(at));
  const int64_t picks = indices.numel();
  const Tensor flat = index_add(reshape(x, Shape{x.numel(), 1}), reshape(where(inside, place, -1), Shape{picks}),
                                reshape(cut_to(source, indices.shape()), Shape{picks, 1}));
  return reshape(flat, x.shape());
}

}  // namespace

Tensor scatter_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, Caller caller) {
  const CallerScope scope(caller);
  const int at = normalize_axis(axis, x.rank(), "scatter_add");
  build::check_device(x, indices, "scatter_add");
  build::check_device(x, source, "scatter_add");
  check_scatter(x, at, indices, source);
  build::watch_indices("scatter_add", indices, {.axis = at, .size = x.dim(at)});
  if (indices.numel() == 0 || x.numel() == 0) return x;
  // Comparing is one fused kernel; it wins while few picks, or few rows, make few comparisons an element.
  const bool few = indices.dim(at) <= 16 || indices.dim(at) * x.dim(at) <= 1024;
  return few ? add_by_comparison(x, at, indices, source) : add_by_order(x, at, indices, source);
}

Tensor index_add(TensorArg argument, const Tensor& indices, const Tensor& source) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  check_index_dtype(indices, "index_add");
  bool fits = x.rank() >= 1 && indices.rank() == 1 && source.rank() == x.rank();
  if (fits) fits = source.shape() == x.shape().with(0, indices.shape()[0]);
  if (!fits) {
    throw ShapeError(fmt::format(
        "[index_add] x is {}, indices {}, source {}: indices must be (n), and the source n rows of x's kind",
        x.shape().str(), indices.shape().str(), source.shape().str()));
  }
  if (source.dtype() != x.dtype()) {
    throw DTypeError(
        fmt::format("[index_add] x is {}, source {}; cast the source", name_of(x.dtype()), name_of(source.dtype())));
  }
  if (x.dtype() == DType::boolean) throw DTypeError("[index_add] bool has no addition; cast to an integer dtype first");
  build::watch_indices("index_add", indices, {.size = x.dim(0)});
  return record(ops::scatter_rows_op, {&x, &indices, &source}, {}, x.shape(), x.dtype());
}

}  // namespace heddle
