// Reductions and what is composed of them.
#include "heddle/core/functions/math/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/composite.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::record;

bool holds(const std::vector<int>& axes, int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

Shape dropped(const Shape& shape, const std::vector<int>& axes) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!holds(axes, i)) result.push_back(shape[i]);
  }
  return result;
}

Shape kept(const Shape& shape, const std::vector<int>& axes) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(holds(axes, i) ? 1 : shape[i]);
  return result;
}

int64_t reduced_count(const Shape& shape, const std::vector<int>& axes) {
  int64_t count = 1;
  for (int axis : axes) count *= shape[axis];
  return count;
}

Tensor reduce(const OpDef& op, const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  if (axes.empty()) return x;  // rank 0: each element is its own sum, maximum, ...
  const Shape shape = dropped(x.shape(), axes);
  const Tensor result = record(op, {&x}, Attrs{{axes.begin(), axes.end()}}, shape, x.dtype());
  return keepdim ? reshape(result, kept(x.shape(), axes)) : result;
}

Tensor as_sum_type(const OpDef& op, const Tensor& x) {
  return cast(x, is_float(x.dtype()) ? autocast_dtype(op, x.dtype()) : DType::i64);
}

void refuse_empty(const Tensor& x, const std::vector<int>& axes, const char* op) {
  if (reduced_count(x.shape(), axes) != 0) return;
  throw ShapeError(fmt::format(
      "[{}] {} has no elements along the reduced axes, and {} of nothing is undefined; check for an empty batch", op,
      x.shape().str(), op));
}

// max and min; bool has no arithmetic and goes through i32.
Tensor extremum(const OpDef& op, const Tensor& x, std::vector<int> axes, bool keepdim) {
  axes = normalize_axes(std::move(axes), x.rank(), op.name.data());
  refuse_empty(x, axes, op.name.data());
  if (x.dtype() != DType::boolean) return reduce(op, x, axes, keepdim);
  return cast(reduce(op, cast(x, DType::i32), axes, keepdim), DType::boolean);
}

Tensor index_of(const OpDef& op, const Tensor& x, std::optional<int> axis, bool keepdim) {
  if (!axis || x.rank() == 0) {
    if (axis) normalize_axis(*axis, std::max(x.rank(), 1), op.name.data());
    const Tensor flat = index_of(op, reshape(x, Shape{x.numel()}), 0, false);
    Shape ones;
    for (int i = 0; keepdim && i < x.rank(); ++i) ones.push_back(1);
    return reshape(flat, ones);
  }
  const int at = normalize_axis(*axis, x.rank(), op.name.data());
  refuse_empty(x, {at}, op.name.data());
  const Tensor in = x.dtype() == DType::boolean ? cast(x, DType::i32) : x;
  const Tensor result = record(op, {&in}, axis_attrs(at), x.shape().without(at), DType::i64);
  return keepdim ? reshape(result, x.shape().with(at, 1)) : result;
}

// The mean of a tensor that is f32 or f64 already.
Tensor wide_mean(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  return reduce(ops::sum_op, x, axes, keepdim) * (1 / count);
}

}  // namespace

Tensor sum(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return reduce(ops::sum_op, as_sum_type(ops::sum_op, x), normalize_axes(std::move(axes), x.rank(), "sum"), keepdim);
}

Tensor prod(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return reduce(ops::prod_op, as_sum_type(ops::prod_op, x), normalize_axes(std::move(axes), x.rank(), "prod"), keepdim);
}

Tensor max(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return extremum(ops::max_op, x, std::move(axes), keepdim);
}
Tensor min(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return extremum(ops::min_op, x, std::move(axes), keepdim);
}
Tensor argmax(const Tensor& x, std::optional<int> axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return index_of(ops::argmax_op, x, axis, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int> axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return index_of(ops::argmin_op, x, axis, keepdim);
}

// Half precision is summed in f32 and rounded once: a sum of f16 may exceed 65504 where the mean does not.
Tensor mean(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const Tensor in = build::as_float(x, Autocast::f32);
  axes = normalize_axes(std::move(axes), x.rank(), "mean");
  const Tensor result = cast(wide_mean(build::widen(in), axes, keepdim), in.dtype());
  if (CompositeScope::active()) {
    std::vector<int64_t> numbers{keepdim};
    numbers.insert(numbers.end(), axes.begin(), axes.end());
    note_composite("mean", result, {&in}, std::move(numbers));
  }
  return result;
}

Tensor var(const Tensor& x, std::vector<int> axes, bool keepdim, double correction, Caller caller) {
  const CallerScope scope(caller);
  axes = normalize_axes(std::move(axes), x.rank(), "var");
  const Tensor in = build::as_float(x, Autocast::f32);
  const Tensor wide = build::widen(in);
  const Tensor centred = wide - wide_mean(wide, axes, true);
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  // The mean is rounded: sum (x - m)^2 is too large by (sum (x - m))^2 / n, which is 0 but for that, and so is its
  // derivative.
  const Tensor excess = stop_gradient(square(reduce(ops::sum_op, centred, axes, keepdim)) * (1 / count));
  const double freedom = std::max(0.0, count - correction);
  return cast((reduce(ops::sum_op, centred * centred, axes, keepdim) - excess) * (1 / freedom), in.dtype());
}

Tensor logsumexp(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = normalize_axes(std::move(axes), x.rank(), "logsumexp");
  Tensor in = build::as_float(x, Autocast::f32);
  const Shape result = keepdim ? kept(x.shape(), axes) : dropped(x.shape(), axes);
  if (axes.empty()) return in;
  if (reduced_count(x.shape(), axes) == 0)
    return full(result, -std::numeric_limits<double>::infinity(), in.dtype(), &x.device());
  int axis = axes[0];
  if (axes.size() > 1) {
    // Reduced axes last and merged into one, so that one row of the fused op has all of them.
    std::vector<int> order;
    for (int i = 0; i < x.rank(); ++i) {
      if (!holds(axes, i)) order.push_back(i);
    }
    axis = static_cast<int>(order.size());
    order.insert(order.end(), axes.begin(), axes.end());
    Shape merged = dropped(x.shape(), axes);
    merged.push_back(reduced_count(x.shape(), axes));
    in = reshape(permute(in, order), merged);
  }
  const Tensor row = record(ops::logsumexp_op, {&in}, axis_attrs(axis), in.shape().without(axis), in.dtype());
  return reshape(row, result);
}

}  // namespace heddle
