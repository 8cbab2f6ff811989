// Parts, blocks, products of lists, runs.
#include "heddle/core/functions/shape/arrange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/math/statistics.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/ordered_sets.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {

using build::axis_of;
using build::positions;

namespace {

constexpr int64_t most_places = int64_t{1} << 26;  // that combinations() makes on the host

void check_parts(const char* op, std::span<const Tensor> parts) {
  if (parts.empty()) throw ValueError(fmt::format("[{}] at least one tensor is needed", op));
}

std::vector<Tensor> cut(const Tensor& x, const std::vector<int64_t>& places, int at) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i <= places.size(); ++i) {
    const int64_t start = i == 0 ? 0 : places[i - 1], stop = i == places.size() ? x.dim(at) : places[i];
    parts.push_back(slice(x, at, {.start = start, .stop = std::max(start, stop)}));
  }
  return parts;
}

}  // namespace

Tensor select(const Tensor& x, int axis, int64_t index, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("select", x, axis);
  const int64_t n = x.dim(at), i = index < 0 ? index + n : index;
  if (i < 0 || i >= n)
    throw ValueError(fmt::format("[select] index {} is out of range for axis {} of {}", index, at, x.shape().str()));
  return squeeze(slice(x, at, {.start = i, .stop = i + 1}), at);
}

Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("narrow", x, axis);
  const int64_t from = start < 0 ? start + x.dim(at) : start;
  if (from < 0 || length < 0 || from > x.dim(at) || length > x.dim(at) - from) {
    throw ValueError(fmt::format("[narrow] {} elements from {} on are not inside axis {} of {}", length, start, at,
                                 x.shape().str()));
  }
  return slice(x, at, {.start = from, .stop = from + length});
}

std::vector<Tensor> tensor_split(const Tensor& x, int64_t parts, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("tensor_split", x, axis);
  if (parts < 1 || parts > build::most_parts)
    throw ValueError(fmt::format("[tensor_split] {} parts; there must be 1 to 2^20", parts));
  std::vector<int64_t> places;
  for (int64_t i = 1; i < parts; ++i) places.push_back(i * (x.dim(at) / parts) + std::min(i, x.dim(at) % parts));
  return cut(x, places, at);
}
std::vector<Tensor> tensor_split(const Tensor& x, std::vector<int64_t> places, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("tensor_split", x, axis);
  for (int64_t& p : places) p = std::clamp<int64_t>(p < 0 ? p + x.dim(at) : p, 0, x.dim(at));
  return cut(x, places, at);
}

Tensor column_stack(std::span<const Tensor> parts, Caller caller) {
  const CallerScope scope(caller);
  check_parts("column_stack", parts);
  std::vector<Tensor> columns;
  for (const Tensor& p : parts) columns.push_back(p.rank() < 2 ? reshape(p, Shape{p.numel(), 1}) : p);
  return hstack(columns);
}

Tensor block_diag(std::span<const Tensor> parts, Caller caller) {
  const CallerScope scope(caller);
  check_parts("block_diag", parts);
  int64_t width = 0, left = 0;
  DType t = parts[0].dtype();
  for (const Tensor& p : parts) {
    if (p.rank() > 2)
      throw ShapeError(fmt::format("[block_diag] the parts are matrices, vectors or scalars; got {}", p.shape().str()));
    build::check_device(parts[0], p, "block_diag");
    t = promote(t, p.dtype());
    width += p.rank() == 0 ? 1 : p.dim(-1);
  }
  std::vector<Tensor> rows;
  for (const Tensor& p : parts) {
    const Tensor block = cast(atleast_2d(p), t);
    rows.push_back(pad(block, {{0, 0}, {left, width - left - block.dim(1)}}));
    left += block.dim(1);
  }
  return concat(rows, 0);
}

Tensor cartesian_prod(std::span<const Tensor> vectors, Caller caller) {
  const CallerScope scope(caller);
  check_parts("cartesian_prod", vectors);
  for (const Tensor& v : vectors) {
    if (v.rank() != 1) throw ShapeError(fmt::format("[cartesian_prod] the lists are vectors; got {}", v.shape().str()));
  }
  if (vectors.size() == 1) return vectors[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(vectors)) columns.push_back(ravel(grid));
  return stack(columns, 1);
}

Tensor combinations(TensorArg argument, int64_t count, bool with_replacement) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  if (x.rank() != 1) throw ShapeError(fmt::format("[combinations] x is a vector; got {}", x.shape().str()));
  if (count < 1) throw ValueError(fmt::format("[combinations] {} elements of each; at least one is needed", count));
  const int64_t n = x.dim(0);
  if (!with_replacement && count > n) return reshape(slice(x, 0, {.stop = 0}), Shape{0, count});
  const auto too_many = [&] {
    return ValueError(fmt::format("[combinations] there are too many of {} elements of {}", count, n));
  };
  if (count > most_places || n > most_places) throw too_many();
  std::vector<int> places, row(static_cast<size_t>(count));
  if (!with_replacement) std::iota(row.begin(), row.end(), 0);
  // The next row in order: the last place that can still grow does, and those behind it begin again.
  const auto grows = [&](size_t at) {
    return row[at] < (with_replacement ? n - 1 : n - count + static_cast<int64_t>(at));
  };
  for (size_t at = row.size(); n > 0 && at > 0;) {
    if (static_cast<int64_t>(places.size()) > most_places - count) throw too_many();
    places.insert(places.end(), row.begin(), row.end());
    for (at = row.size(); at > 0 && !grows(at - 1);) --at;
    if (at > 0) ++row[at - 1];
    for (size_t i = at; at > 0 && i < row.size(); ++i) row[i] = with_replacement ? row[i - 1] : row[i - 1] + 1;
  }
  const Shape shape{static_cast<int64_t>(places.size()) / count, count};
  if (places.empty()) return reshape(slice(x, 0, {.stop = 0}), shape);
  return take(x, Tensor::from_vector(places, shape, &x.device()));
}

Tensor vander(TensorArg argument, int64_t columns, bool increasing) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  if (x.rank() != 1) throw ShapeError(fmt::format("[vander] x is a vector; got {}", x.shape().str()));
  if (columns < -1) throw ValueError(fmt::format("[vander] {} columns; the number must not be negative", columns));
  const int64_t n = columns == -1 ? x.dim(0) : columns;
  const Shape shape{x.dim(0), n};
  const Tensor in = is_float(x.dtype()) ? x : cast(x, DType::i64);
  if (shape.numel() == 0) return zeros(shape, in.dtype(), &x.device());
  const Tensor powers = cumprod(where(positions(shape, 1, x.device()) == 0, 1, expand(unsqueeze(in, 1), shape)), 1);
  return increasing ? powers : flip(powers, {1});
}

Tensor logspace(double start, double stop, int64_t count, double base, DType dtype, DeviceContext* device,
                Caller caller) {
  const CallerScope scope(caller);
  if (!(base > 0) || std::isinf(base))
    throw ValueError(fmt::format("[logspace] base is {}; it must be finite and positive", base));
  const Tensor exponent = linspace(start, stop, count, dtype == DType::f64 ? DType::f64 : DType::f32, device);
  return cast(exp(exponent * std::log(base)), dtype);
}

Tensor cumulative_trapezoid(const Tensor& y, double dx, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("cumulative_trapezoid", y, axis);
  const Tensor in = build::as_float(y), wide = build::widen(in);
  const Tensor both =
      slice(wide, at, {.start = 1}) + slice(wide, at, {.start = 0, .stop = std::max<int64_t>(y.dim(at) - 1, 0)});
  return cast(cumsum(both, at) * (0.5 * dx), in.dtype());
}

Tensor dist(const Tensor& a, const Tensor& b, double p, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(a, b, "dist");
  broadcast_shapes(a.shape(), b.shape(), "dist");
  return norm(build::as_float(a) - build::as_float(b), p);
}

Tensor msort(TensorArg x) {
  const CallerScope scope(x.caller);
  build::check_rank("msort", x.tensor, 1);
  return sort(x.tensor, 0).values;
}

Ordered nanmedian(const Tensor& x, int axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("nanmedian", x, axis);
  if (x.dim(at) == 0) throw ShapeError(fmt::format("[nanmedian] axis {} of {} has no elements", at, x.shape().str()));
  const Ordered order = sort(x, at);  // NaN last
  const Tensor numbers = is_float(x.dtype())
                             ? sum(cast(!isnan(x), DType::i32), {at}, true)
                             : full(x.shape().with(at, 1), static_cast<double>(x.dim(at)), DType::i64, &x.device());
  const Tensor middle = maximum(shift_right(numbers - 1, full_like(numbers, 1)), 0);
  const Tensor value = gather(order.values, at, middle), index = gather(order.indices, at, middle);
  return keepdim ? Ordered{value, index} : Ordered{squeeze(value, at), squeeze(index, at)};
}

Ordered mode(const Tensor& x, int axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("mode", x, axis);
  if (x.dim(at) == 0) throw ShapeError(fmt::format("[mode] axis {} of {} has no elements", at, x.shape().str()));
  const Ordered order = sort(x, at);
  const Tensor changed = ne(slice(order.values, at, {.start = 1}), slice(order.values, at, {.stop = x.dim(at) - 1}));
  std::vector<std::pair<int64_t, int64_t>> front(static_cast<size_t>(x.rank()), {0, 0});
  front[static_cast<size_t>(at)].first = 1;
  const Tensor place = positions(x.shape(), at, x.device());
  const Tensor begin =
      cummax(where(pad(cast(changed, DType::i32), front) > 0, place, 0), at).values;  // of the run of equal values
  const Tensor last = argmax(place - begin, at, true),
               first = gather(begin, at, last);  // the longest; the first of several is the smallest value's
  const Tensor index = gather(order.indices, at, first), value = gather(x, at, index);
  return keepdim ? Ordered{value, index} : Ordered{squeeze(value, at), squeeze(index, at)};
}

Unique unique_consecutive(TensorArg argument) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  DeviceContext& device = x.device();
  const int64_t n = x.numel();
  if (n == 0)
    return {reshape(x, Shape{0}), zeros(x.shape(), DType::i64, &device), zeros(Shape{0}, DType::i64, &device)};
  const Tensor flat = reshape(x, Shape{n});
  const Tensor changed = ne(slice(flat, 0, {.start = 1}), slice(flat, 0, {.stop = n - 1}));
  const Tensor run =
      n == 1 ? zeros(Shape{1}, DType::i64, &device) : cumsum(pad(cast(changed, DType::i32), {{1, 0}}), 0);
  const auto count = static_cast<int64_t>(slice(run, 0, {.start = n - 1}).item(current_caller())) + 1;
  const Tensor ends = searchsorted(run, cast(positions(Shape{count}, 0, device), DType::i64), true);
  const Tensor starts = pad(slice(ends, 0, {.stop = count - 1}), {{1, 0}});
  return {take(flat, starts), reshape(run, x.shape()), ends - starts};
}

}  // namespace heddle
