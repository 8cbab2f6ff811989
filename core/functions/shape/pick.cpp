// Picking and deterministic writes: compositions of take(), gather(), sorting and comparison.
#include "heddle/core/functions/shape/pick.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/ordered_sets.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {

using build::axis_of;
using build::broadcasts_to;
using build::check_dtypes;
using build::check_scatter;
using build::last_pick;
using build::positions;
using build::product;
using build::scatter_into;
using build::wrapped;

namespace build {

void check_dtypes(const char* op, const Tensor& x, const Tensor& values) {
  build::check_device(x, values, op);
  if (values.dtype() != x.dtype())
    throw DTypeError(fmt::format("[{}] the values must have x's dtype; got {} for {}; cast() them", op,
                                 name_of(values.dtype()), name_of(x.dtype())));
}

Tensor wrapped(const Tensor& indices, int64_t size) {
  return where(indices < 0, indices + static_cast<double>(size), indices);
}

Tensor narrowed(const Tensor& indices, int64_t rows) {
  if (indices.dtype() != DType::i64) return cast(indices, DType::i32);
  return cast(minimum(maximum(indices, static_cast<double>(-rows - 1)), static_cast<double>(rows)), DType::i32);
}

Tensor differs(const Tensor& targets, int64_t number) {
  const auto near = static_cast<double>(number);
  if (near < 0x1p63 && static_cast<int64_t>(near) == number) return targets != near;
  const int64_t low = number & 0xffffffff;
  const Tensor exact =
      full(Shape{}, static_cast<double>(number - low), DType::i64, &targets.device()) + static_cast<double>(low);
  return targets != exact;
}

Tensor bounded(const Tensor& lengths, int64_t most) {
  return cast(minimum(maximum(lengths, 0), static_cast<double>(most)), DType::i32);
}

Tensor last_place(const Tensor& ordered, int64_t rows) {
  const Shape found{ordered.dim(0), ordered.dim(1), rows};
  const Tensor row = positions(found, 2, ordered.device());
  const Tensor at = cast(searchsorted(ordered, row, true), DType::i32) - 1;
  return where(at >= 0 && eq(gather(ordered, 2, maximum(at, 0)), row), at,
               full(found, -1, DType::i32, &ordered.device()));
}

// Few comparisons are one fused kernel; else rows are looked up in order.
Tensor last_pick(const Tensor& indices, int64_t rows) {
  const int64_t outer = indices.dim(0), picks = indices.dim(1), inner = indices.dim(2);
  if (picks <= 16 || picks * rows <= 1024) {
    const Shape grid{outer, rows, picks, inner};
    const Tensor index = expand(reshape(narrowed(indices, rows), Shape{outer, 1, picks, inner}), grid);
    return max(where(eq(index, positions(grid, 1, indices.device())), positions(grid, 2, indices.device()),
                     full(grid, -1, DType::i32, &indices.device())),
               {2});
  }
  const Tensor last = narrowed(permute(indices, {0, 2, 1}), rows);  // (outer, inner, picks)
  const Ordered order = sort(last);
  const Tensor place = last_place(order.values, rows);
  return permute(where(place >= 0, cast(gather(order.indices, 2, maximum(place, 0)), DType::i32), place), {0, 2, 1});
}

Tensor scatter_into(const Tensor& x, int at, const Tensor& indices, const Tensor& source) {
  if (indices.numel() == 0 || x.numel() == 0) return x;
  std::vector<Slice> covered, named;
  for (int i = 0; i < x.rank(); ++i) {
    covered.push_back({.start = 0, .stop = i == at ? x.dim(i) : indices.dim(i)});
    named.push_back({.start = 0, .stop = indices.dim(i)});
  }
  const int64_t outer = product(indices.shape(), 0, at), picks = indices.dim(at),
                inner = product(indices.shape(), at + 1, x.rank());
  const Tensor pick = last_pick(reshape(indices, Shape{outer, picks, inner}), x.dim(at));
  const Tensor values = reshape(slice(source, named), Shape{outer, picks, inner});
  const Tensor written = gather(values, 1, maximum(pick, 0));
  Tensor hit = pick >= 0;
  const Shape part = indices.shape().with(at, x.dim(at));
  if (part == x.shape()) return where(reshape(hit, part), reshape(written, part), x);
  std::vector<std::pair<int64_t, int64_t>> rest;
  for (int i = 0; i < x.rank(); ++i) rest.emplace_back(0, x.dim(i) - part[i]);
  hit = cast(pad(reshape(cast(hit, DType::i32), part), rest), DType::boolean);
  return where(hit, pad(reshape(written, part), rest), x);
}

void check_scatter(const char* op, const Tensor& x, int at, const Tensor& indices, const Shape& source) {
  check_index_dtype(indices, op);
  check_device(x, indices, op);
  bool fits = indices.rank() == x.rank() && source.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i)
    fits = indices.dim(i) <= source[i] && (i == at || indices.dim(i) <= x.dim(i));
  if (!fits) {
    throw ShapeError(
        fmt::format("[{}] ranks are equal, indices no larger than source, and than x but along axis {}; got x {}, "
                    "indices {}, source {}",
                    op, at, x.shape().str(), indices.shape().str(), source.str()));
  }
}

}  // namespace build

namespace {

using build::check_index_dtype;
using build::show;

// A number in x's dtype.
Tensor number_of(const char* op, const Tensor& x, double value) {
  if (build::number_dtype(value, x.dtype()) != x.dtype() &&
      !(x.dtype() == DType::boolean && (value == 0 || value == 1))) {
    throw ValueError(fmt::format("[{}] the value must fit the dtype; got {} for {}; cast() the tensor first", op, value,
                                 name_of(x.dtype())));
  }
  return full(x.shape(), value, x.dtype(), &x.device());
}

// x and indices with equal axes but `at`.
struct Along {
  Tensor x, indices;
};
Along along(const char* op, const Tensor& x, const Tensor& indices, int at) {
  check_index_dtype(indices, op);
  build::check_device(x, indices, op);
  const auto refuse = [&] {
    throw ShapeError(fmt::format("[{}] ranks are equal, and all axes but {} broadcast; got x {} and indices {}", op, at,
                                 x.shape().str(), indices.shape().str()));
  };
  if (indices.rank() != x.rank()) refuse();
  Shape common = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    if (i == at || indices.dim(i) == x.dim(i) || indices.dim(i) == 1) continue;
    if (x.dim(i) != 1) refuse();
    common = common.with(i, indices.dim(i));
  }
  if (x.dim(at) == 0 && indices.numel() != 0)
    throw ShapeError(fmt::format("[{}] axis {} of {} has no elements to index", op, at, x.shape().str()));
  return {build::broadcast(x, common.with(at, x.dim(at))), build::broadcast(indices, common.with(at, indices.dim(at)))};
}

void check_mask(const char* op, const Tensor& x, const Tensor& mask) {
  build::check_device(x, mask, op);
  if (mask.dtype() != DType::boolean)
    throw DTypeError(fmt::format("[{}] the mask is bool; got {}; compare it with 0", op, show(mask)));
}

// Where a bool vector is true, i64, ascending: the k-th place is the first at which k were counted. The count alone is
// looked at by the host.
Tensor true_places(const Tensor& mask) {
  const int64_t n = mask.numel();
  if (n == 0) return zeros(Shape{0}, DType::i64, &mask.device());
  const Tensor counted = cumsum(mask, 0);
  const auto count = static_cast<int64_t>(slice(counted, 0, {.start = n - 1}).item(current_caller()));
  return searchsorted(counted, cast(positions(Shape{count}, 0, mask.device()), DType::i64) + 1);
}

}  // namespace

Tensor index_select(const Tensor& x, int axis, const Tensor& indices, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("index_select", x, axis);
  check_index_dtype(indices, "index_select");
  build::check_device(x, indices, "index_select");
  if (indices.rank() != 1)
    throw ShapeError(
        fmt::format("[index_select] indices are a vector; got {}; take() accepts any shape", indices.shape().str()));
  if (x.dim(at) == 0 && indices.numel() != 0)
    throw ShapeError(fmt::format("[index_select] axis {} of {} has no elements to index", at, x.shape().str()));
  build::watch_indices("index_select", indices, {.axis = at, .size = x.dim(at), .from_end = true});
  return take(x, indices, at);
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("take_along_axis", x, axis);
  const Along both = along("take_along_axis", x, indices, at);
  build::watch_indices("take_along_axis", indices, {.axis = at, .size = x.dim(at), .from_end = true});
  return gather(both.x, at, both.indices);
}

Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("put_along_axis", x, axis);
  check_dtypes("put_along_axis", x, values);
  const Along both = along("put_along_axis", x, indices, at);
  if (both.x.shape() != x.shape() || !broadcasts_to(values.shape(), both.indices.shape())) {
    throw ShapeError(
        fmt::format("[put_along_axis] indices broadcast to x, and values to indices; got x {}, indices {}, values {}",
                    x.shape().str(), indices.shape().str(), values.shape().str()));
  }
  build::watch_indices("put_along_axis", indices, {.axis = at, .size = x.dim(at), .from_end = true});
  return scatter_into(x, at, wrapped(both.indices, x.dim(at)), build::broadcast(values, both.indices.shape()));
}

Tensor scatter(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("scatter", x, axis);
  check_dtypes("scatter", x, source);
  check_scatter("scatter", x, at, indices, source.shape());
  build::watch_indices("scatter", indices, {.axis = at, .size = x.dim(at)});
  return scatter_into(x, at, indices, source);
}
Tensor scatter(const Tensor& x, int axis, const Tensor& indices, double value, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("scatter", x, axis);
  check_scatter("scatter", x, at, indices, indices.shape());
  build::watch_indices("scatter", indices, {.axis = at, .size = x.dim(at)});
  return scatter_into(x, at, indices,
                      full(indices.shape(), value, number_of("scatter", x, value).dtype(), &x.device()));
}

Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate,
                 Caller caller) {
  const CallerScope scope(caller);
  check_dtypes("index_put", x, values);
  if (accumulate && x.dtype() == DType::boolean)
    throw DTypeError("[index_put] bool has no addition; cast() to an integer dtype first");
  const int count = static_cast<int>(indices.size());
  if (count < 1 || count > x.rank())
    throw ShapeError(fmt::format("[index_put] one tensor of indices for each leading axis written; got {} for {}",
                                 count, x.shape().str()));
  Shape picks;
  for (const Tensor& index : indices) {
    check_index_dtype(index, "index_put");
    build::check_device(x, index, "index_put");
    picks = broadcast_shapes(picks, index.shape(), "index_put");
  }
  Shape written = picks;
  for (int i = count; i < x.rank(); ++i) written.push_back(x.dim(i));
  if (!broadcasts_to(values.shape(), written)) {
    throw ShapeError(fmt::format("[index_put] values broadcast to the elements written; got {} for {}",
                                 values.shape().str(), written.str()));
  }
  const int64_t rows = product(x.shape(), 0, count), width = product(x.shape(), count, x.rank()), n = picks.numel();
  if (n == 0 || x.numel() == 0) return x;
  Tensor place, inside;
  for (int i = 0; i < count; ++i) {
    build::watch_indices("index_put", indices[static_cast<size_t>(i)], {.axis = i, .size = x.dim(i), .from_end = true});
    const Tensor index =
        wrapped(build::broadcast(build::narrowed(indices[static_cast<size_t>(i)], x.dim(i)), picks), x.dim(i));
    const Tensor valid = index >= 0 && index < static_cast<double>(x.dim(i));
    place = i == 0 ? index : place * static_cast<double>(x.dim(i)) + index;
    inside = i == 0 ? valid : inside && valid;
  }
  const Tensor flat = reshape(where(inside, place, full(picks, -1, DType::i32, &x.device())), Shape{n});
  const Tensor source = reshape(build::broadcast(values, written), Shape{n, width}),
               table = reshape(x, Shape{rows, width});
  if (accumulate) return reshape(index_add(table, flat, source), x.shape());
  const Tensor pick = reshape(last_pick(reshape(flat, Shape{1, n, 1}), rows), Shape{rows});
  return reshape(where(reshape(pick >= 0, Shape{rows, 1}), take(source, maximum(pick, 0), 0), table), x.shape());
}

Tensor index_fill(const Tensor& x, int axis, const Tensor& indices, double value, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("index_fill", x, axis);
  check_index_dtype(indices, "index_fill");
  build::check_device(x, indices, "index_fill");
  if (indices.rank() > 1)
    throw ShapeError(fmt::format("[index_fill] indices are a vector; got {}", indices.shape().str()));
  build::watch_indices("index_fill", indices, {.axis = at, .size = x.dim(at), .from_end = true});
  const Tensor hit =
      isin(positions(Shape{x.dim(at)}, 0, x.device()), wrapped(build::narrowed(indices, x.dim(at)), x.dim(at)));
  Shape aligned(std::vector<int64_t>(static_cast<size_t>(x.rank()), 1));
  return where(reshape(hit, aligned.with(at, x.dim(at))), number_of("index_fill", x, value), x);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Caller caller) {
  const CallerScope scope(caller);
  return masked_fill(x, mask, number_of("masked_fill", x, value));
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, Caller caller) {
  const CallerScope scope(caller);
  check_mask("masked_fill", x, mask);
  check_dtypes("masked_fill", x, value);
  if (!broadcasts_to(mask.shape(), x.shape()) || !broadcasts_to(value.shape(), x.shape())) {
    throw ShapeError(fmt::format("[masked_fill] mask and value broadcast to x; got x {}, mask {}, value {}",
                                 x.shape().str(), mask.shape().str(), value.shape().str()));
  }
  return where(mask, value, x);
}

Tensor masked_select(TensorArg argument, const Tensor& mask) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  check_mask("masked_select", x, mask);
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor places = true_places(reshape(build::broadcast(mask, shape), Shape{shape.numel()}));
  const Tensor flat = reshape(build::broadcast(x, shape), Shape{shape.numel()});
  return places.numel() == 0 ? slice(flat, 0, {.stop = 0}) : take(flat, places);
}

Tensor nonzero(TensorArg argument) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  const Tensor places = true_places(reshape(cast(x, DType::boolean), Shape{x.numel()}));
  const Shape shape{places.numel(), x.rank()};
  if (shape.numel() == 0) return zeros(shape, DType::i64, &x.device());
  const auto strides = row_major_strides(x.shape());
  std::vector<Tensor> columns;
  for (int i = 0; i < x.rank(); ++i)
    columns.push_back(mod(integer_quotient(places, static_cast<double>(strides[static_cast<size_t>(i)])),
                          static_cast<double>(x.dim(i))));
  return stack(columns, 1);
}

}  // namespace heddle
