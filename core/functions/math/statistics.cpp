// Statistics composed of reductions, sorting and scattering.
#include "heddle/core/functions/math/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/nn/softmax.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::as_float;
using build::widen;

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor not_zero(const Tensor& x) { return x.dtype() == DType::boolean ? x : x != 0; }

// Axes as reductions take them; under this name the errors of a wrong axis.
std::vector<int> checked_axes(const char* op, const Tensor& x, std::vector<int> axes) {
  return normalize_axes(std::move(axes), x.rank(), op);
}

int checked_axis(const char* op, const Tensor& x, int axis) {
  if (x.rank() == 0) throw ShapeError(fmt::format("[{}] a scalar has no axis; reshape it to (1)", op));
  return normalize_axis(axis, x.rank(), op);
}

void refuse_empty(const char* op, const Tensor& x, const std::vector<int>& axes) {
  for (const int axis : axes) {
    if (x.dim(axis) != 0) continue;
    throw ShapeError(
        fmt::format("[{}] axis {} of {} has no elements, and {} of nothing is undefined; check for an empty batch", op,
                    axis, x.shape().str(), op));
  }
}

// sqrt(x) with gradient 0 where x is 0 (or, by rounding, below).
Tensor root(const Tensor& x) {
  const Tensor none = x <= 0;
  return where(none, 0, sqrt(where(none, 1, x)));
}

Tensor power_norm(const Tensor& x, double p, const std::vector<int>& axes, bool keepdim) {
  const Tensor size = abs(x), zero = size == 0;
  const Tensor total = sum(where(zero, p > 0 ? 0.0 : infinity, pow(where(zero, 1, size), p)), axes, keepdim);
  const Tensor none = p > 0 ? total == 0 : isinf(total);
  return where(none, 0, pow(where(none, 1, total), 1 / p));
}

// One place along an axis, which stays with size 1.
Tensor at_place(const Tensor& x, int axis, int64_t place) {
  return slice(x, axis, {.start = place, .stop = place + 1});
}

Ordered without_axis(const Ordered& x, int axis, bool keepdim) {
  return keepdim ? x : Ordered{squeeze(x.values, axis), squeeze(x.indices, axis)};
}

Tensor quantile_of(const Tensor& sorted, double q, int axis) {
  const int64_t last = sorted.dim(axis) - 1;
  const double place = q * static_cast<double>(last), below = std::floor(place);
  const Tensor low = at_place(sorted, axis, static_cast<int64_t>(below));
  if (place == below) return low;
  const Tensor high = at_place(sorted, axis, static_cast<int64_t>(below) + 1);
  const double share = place - below;
  return share < 0.5 ? low + share * (high - low)
                     : high - (1 - share) * (high - low);  // from the nearer one: exact there, and an infinity stays
}

Tensor running(const OpDef& op, const Tensor& x, int axis) {
  ScanAttrs attrs;
  attrs.axis = axis;
  return build::record(op, {&x}, attrs.packed(), x.shape(), x.dtype());
}

// Where the largest of the elements so far was last: an element that is its own running maximum is the latest such
// until the next one.
Tensor latest_largest(const Tensor& x, int axis) {
  const Tensor best = running(ops::cummax_op, x, axis);
  const Tensor latest = is_float(x.dtype()) ? x == best || isnan(x) : x == best;
  Shape along;
  for (int i = 0; i < x.rank(); ++i) along.push_back(i == axis ? x.dim(axis) : 1);
  return running(
      ops::cummax_op,
      where(latest, reshape(arange(0, static_cast<double>(x.dim(axis)), 1, DType::i32, &x.device()), along), -1), axis);
}

Ordered running_extreme(const char* op, const Tensor& x, int axis, bool greatest) {
  const int at = checked_axis(op, x, axis);
  Tensor keys = stop_gradient(x);
  if (!is_float(x.dtype()) && x.dtype() != DType::i64) keys = cast(keys, DType::i32);
  if (!greatest)
    keys =
        is_float(keys.dtype()) ? -keys : bitwise_not(keys);  // ~ turns the order of integers round, and has no overflow
  if (x.numel() == 0) return {x, zeros(x.shape(), DType::i64, &x.device())};
  const Tensor places = latest_largest(keys, at);
  return {gather(x, at, places), cast(places, DType::i64)};
}

Tensor centred_rows(const char* op, const Tensor& x) {
  if (x.rank() != 1 && x.rank() != 2)
    throw ShapeError(
        fmt::format("[{}] x is {}; it must be (variables, observations) or (observations)", op, x.shape().str()));
  const Tensor wide = widen(as_float(x));
  const Tensor rows = x.rank() == 1 ? unsqueeze(wide, 0) : wide;
  if (rows.dim(1) == 0) return rows;
  const Tensor shifted =
      rows - slice(rows, 1, {.stop = 1});  // so that equal values leave 0, not what their mean rounds off
  return shifted - mean(shifted, {1}, true);
}

// (variables, variables), or a scalar for one variable without an axis.
Tensor products(const Tensor& rows, const Tensor& x) {
  const Tensor all_pairs = build::plain_matmul(rows, transpose(rows));
  return x.rank() == 1 ? reshape(all_pairs, Shape{}) : all_pairs;
}

Tensor counted(const char* op, const Tensor& indices, const Tensor& weights, int64_t length) {
  if (length <= 0) throw ValueError(fmt::format("[{}] the length is {}; it must be positive", op, length));
  const Shape flat{indices.numel()};
  return scatter_add(zeros({length}, weights.dtype(), &indices.device()), 0, reshape(indices, flat),
                     reshape(weights, flat));
}

Tensor bins_of(const Tensor& x, int64_t length) {
  if (is_float(x.dtype()))
    throw DTypeError(
        fmt::format("[bincount] x is {}; it must be an integer tensor; histogram() counts floats", name_of(x.dtype())));
  if (length <= 0) throw ValueError(fmt::format("[bincount] the length is {}; it must be positive", length));
  return x.dtype() == DType::i64 ? x : cast(x, DType::i32);
}

}  // namespace

Tensor any(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("any", x, std::move(axes));
  return x.numel() == 0 ? sum(not_zero(x), axes, keepdim) != 0 : max(not_zero(x), axes, keepdim);
}
Tensor all(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("all", x, std::move(axes));
  return x.numel() == 0 ? sum(not_zero(x), axes, keepdim) == 0 : min(not_zero(x), axes, keepdim);
}
Tensor count_nonzero(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  return sum(not_zero(x), checked_axes("count_nonzero", x, std::move(axes)), keepdim);
}

Tensor histogram(const Tensor& x, int64_t bins, double low, double high, Caller caller) {
  const CallerScope scope(caller);
  if (bins <= 0) throw ValueError(fmt::format("[histogram] the number of bins is {}; it must be positive", bins));
  if (!(low < high) || std::isinf(low) || std::isinf(high))
    throw ValueError(fmt::format("[histogram] the range [{}, {}] is empty or infinite", low, high));
  const Tensor in = widen(as_float(x));
  const auto count = static_cast<double>(bins);
  const Tensor bin = minimum(floor((in - low) / (high - low) * count),
                             count - 1);  // in this order edges that are short fractions stay exact
  const Tensor place = cast(where(in >= low && in <= high, bin, count), DType::i32);  // the bin behind the last is none
  return cast(counted("histogram", place, ones(x.shape(), DType::i32, &x.device()), bins), DType::i64);
}

Tensor bincount(const Tensor& x, int64_t length, Caller caller) {
  const CallerScope scope(caller);
  const Tensor bins = bins_of(x, length);
  return cast(counted("bincount", bins, ones(x.shape(), DType::i32, &x.device()), length), DType::i64);
}
Tensor bincount(const Tensor& x, const Tensor& weights, int64_t length, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(x, weights, "bincount");
  if (x.shape() != weights.shape())
    throw ShapeError(
        fmt::format("[bincount] x is {}, weights {}; they must be the same", x.shape().str(), weights.shape().str()));
  return counted("bincount", bins_of(x, length),
                 weights.dtype() == DType::boolean ? cast(weights, DType::i64) : weights, length);
}

Tensor stddev(const Tensor& x, std::vector<int> axes, bool keepdim, double correction, Caller caller) {
  const CallerScope scope(caller);
  const Tensor in = as_float(x, Autocast::f32);
  return cast(root(var(widen(in), checked_axes("stddev", x, std::move(axes)), keepdim, correction)), in.dtype());
}
VarMean var_mean(const Tensor& x, std::vector<int> axes, bool keepdim, double correction, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("var_mean", x, std::move(axes));
  return {var(x, axes, keepdim, correction), mean(x, axes, keepdim)};
}

Tensor norm(const Tensor& x, double p, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("norm", x, std::move(axes));
  if (std::isnan(p)) throw ValueError("[norm] p is NaN; it must be a number or an infinity");
  const Tensor given = as_float(x, Autocast::f32), in = widen(given);
  if (std::isinf(p)) {
    refuse_empty("norm", x, axes);
    return cast(p > 0 ? max(abs(in), axes, keepdim) : min(abs(in), axes, keepdim), given.dtype());
  }
  if (p == 0) return cast(sum(in != 0, axes, keepdim), given.dtype());
  if (p == 1) return cast(sum(abs(in), axes, keepdim), given.dtype());
  if (p == 2) return cast(root(sum(square(in), axes, keepdim)), given.dtype());
  return cast(power_norm(in, p, axes, keepdim), given.dtype());
}

Tensor cov(const Tensor& x, double correction, Caller caller) {
  const CallerScope scope(caller);
  const Tensor rows = centred_rows("cov", x);
  const double freedom = std::max(0.0, static_cast<double>(rows.dim(1)) - correction);
  return cast(products(rows, x) * (1 / freedom), as_float(x).dtype());
}
Tensor corrcoef(TensorArg x) {
  const CallerScope scope(x.caller);
  const Tensor rows = centred_rows("corrcoef", x.tensor);
  if (rows.dim(1) == 0)
    return full(x.tensor.rank() == 1 ? Shape{} : Shape{rows.dim(0), rows.dim(0)},
                std::numeric_limits<double>::quiet_NaN(), as_float(x.tensor).dtype(), &rows.device());
  return cast(clamp(products(rows / sqrt(sum(square(rows), {1}, true)), x.tensor), -1, 1), as_float(x.tensor).dtype());
}

Tensor nansum(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("nansum", x, std::move(axes));
  return sum(is_float(x.dtype()) ? where(isnan(x), 0, x) : x, axes, keepdim);
}
Tensor nanmean(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("nanmean", x, std::move(axes));
  const Tensor given = as_float(x), in = widen(given), absent = isnan(in);
  return cast(sum(where(absent, 0, in), axes, keepdim) / sum(cast(!absent, in.dtype()), axes, keepdim), given.dtype());
}

Extremes aminmax(const Tensor& x, std::vector<int> axes, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  axes = checked_axes("aminmax", x, std::move(axes));
  refuse_empty("aminmax", x, axes);
  return {min(x, axes, keepdim), max(x, axes, keepdim)};
}

Ordered median(const Tensor& x, int axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const int at = checked_axis("median", x, axis);
  refuse_empty("median", x, {at});
  const Ordered sorted = sort(x, at);
  const int64_t last = x.dim(at) - 1;
  Ordered middle{at_place(sorted.values, at, last / 2), at_place(sorted.indices, at, last / 2)};
  if (is_float(x.dtype())) {  // a NaN is last; the first of them is the answer
    const Tensor end = at_place(sorted.values, at, last), absent = isnan(end);
    const Tensor first = min(where(isnan(sorted.values), sorted.indices, static_cast<double>(last)), {at}, true);
    middle = {where(absent, end, middle.values), where(absent, first, middle.indices)};
  }
  return without_axis(middle, at, keepdim);
}

Ordered kthvalue(const Tensor& x, int64_t k, int axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const int at = checked_axis("kthvalue", x, axis);
  if (k < 1 || k > x.dim(at))
    throw ValueError(fmt::format("[kthvalue] k is {}, and axis {} of {} has {} elements; k counts from 1", k, at,
                                 x.shape().str(), x.dim(at)));
  const Ordered first = topk(x, k, at, false);
  return without_axis({at_place(first.values, at, k - 1), at_place(first.indices, at, k - 1)}, at, keepdim);
}

Tensor quantile(const Tensor& x, std::span<const double> q, std::optional<int> axis, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis ? checked_axis("quantile", x, *axis) : 0;
  if (q.empty()) throw ValueError("[quantile] no q is given");
  for (const double one : q) {
    if (!(one >= 0 && one <= 1)) throw ValueError(fmt::format("[quantile] q is {}; it must be between 0 and 1", one));
  }
  const Tensor given = as_float(x), in = axis ? given : reshape(given, {given.numel()});
  refuse_empty("quantile", in, {at});
  const Tensor sorted = sort(widen(in), at).values, end = at_place(sorted, at, in.dim(at) - 1);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = !axis || i == at;
    if (!reduced || keepdim) shape.push_back(reduced ? 1 : x.dim(i));
  }
  std::vector<Tensor> results;
  for (const double one : q) {
    const Tensor value = cast(where(isnan(end), end, quantile_of(sorted, one, at)), given.dtype());
    results.push_back(unsqueeze(reshape(value, shape), 0));
  }
  return concat(results, 0);
}
Tensor quantile(const Tensor& x, double q, std::optional<int> axis, bool keepdim, Caller caller) {
  return squeeze(quantile(x, std::span<const double>(&q, 1), axis, keepdim, caller), 0, caller);
}

Ordered cummax(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  return running_extreme("cummax", x, axis, true);
}
Ordered cummin(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  return running_extreme("cummin", x, axis, false);
}
Tensor logcumsumexp(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = checked_axis("logcumsumexp", x, axis);
  const Tensor in = as_float(x, Autocast::f32);
  return cast(running(ops::logcumsumexp_op, widen(in), at), in.dtype());
}

Tensor diff(const Tensor& x, int times, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = checked_axis("diff", x, axis);
  if (times < 0) throw ValueError(fmt::format("[diff] it is to be taken {} times; that must not be negative", times));
  Tensor result = x;
  for (int i = 0; i < times && result.dim(at) > 0; ++i) {
    const Tensor next = slice(result, at, {.start = 1}), here = slice(result, at, {.stop = -1});
    result = x.dtype() == DType::boolean ? next != here : next - here;
  }
  return result;
}

Tensor trapezoid(const Tensor& y, double dx, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = checked_axis("trapezoid", y, axis);
  const Tensor given = as_float(y), in = widen(given);
  return cast(sum(slice(in, at, {.start = 1}) + slice(in, at, {.stop = -1}), {at}) * (dx / 2), given.dtype());
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = checked_axis("trapezoid", y, axis);
  build::check_device(y, x, "trapezoid");
  const bool line = x.rank() == 1 && x.dim(0) == y.dim(at);
  if (!line && x.shape() != y.shape()) {
    throw ShapeError(fmt::format("[trapezoid] x is {}, y {}; x must have y's shape or be ({})", x.shape().str(),
                                 y.shape().str(), y.dim(at)));
  }
  Shape places;
  for (int i = 0; i < y.rank(); ++i) places.push_back(i == at ? y.dim(at) : 1);
  const Tensor given = as_float(y), in = widen(given),
               steps = diff(widen(as_float(line ? reshape(x, places) : x)), 1, at);
  return cast(sum((slice(in, at, {.start = 1}) + slice(in, at, {.stop = -1})) * steps * 0.5, {at}), given.dtype());
}

Tensor softmin(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  checked_axis("softmin", x, axis);
  return softmax(-as_float(x), axis);
}

}  // namespace heddle
