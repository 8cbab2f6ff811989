// Pooling: windows as strided slices. One file, because all kinds share how windows lie (Side) and their checks.
#include "heddle/core/functions/nn/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/nn/spatial.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/composite.h"

namespace heddle {
namespace {

using build::spread;
using List = std::vector<int64_t>;
constexpr int64_t direct_elements = 32;  // windows of more are taken along one dimension after the other

void check_rank(const char* op, const Tensor& x, int rank) {
  if (x.rank() == rank + 1 || x.rank() == rank + 2) return;
  throw ShapeError(fmt::format("[{}] x is {}; expected {} dimensions (N, C, spatial...), or {} without N", op,
                               x.shape().str(), rank + 2, rank + 1));
}

// One spatial dimension of a call, checked. `axis` is counted in x.
struct Side {
  int axis = 0;
  int64_t in = 0, out = 0, kernel = 1, stride = 1, padding = 0, dilation = 1;
  int64_t after() const {
    return std::max<int64_t>(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - in - padding);
  }
};
using Sides = std::vector<Side>;

int64_t out_size(const char* op, const Side& s, bool ceil) {
  const int64_t reach = s.dilation * (s.kernel - 1) + 1, padded = s.in + 2 * s.padding;
  if (2 * s.padding > reach)
    throw ValueError(
        fmt::format("[{}] padding {} is more than half of the window's {} elements", op, s.padding, reach));
  const int64_t rest =
      padded - reach + (ceil ? s.stride - 1 : 0);  // with `ceil` a window may reach over the end, also the first
  if (s.in == 0 || rest < 0) {
    throw ShapeError(
        fmt::format("[{}] axis {}: the window covers {} (kernel {}, dilation {}), the padded input only {} ({} + {} + "
                    "{}); a smaller kernel, or a larger input",
                    op, s.axis, reach, s.kernel, s.dilation, padded, s.padding, s.in, s.padding));
  }
  int64_t out = rest / s.stride + 1;
  if (ceil && (out - 1) * s.stride >= s.in + s.padding) --out;
  return out;
}

Sides sides_of(const char* op, int rank, const Tensor& x, const List& kernel, const PoolOptions& how) {
  check_rank(op, x, rank);
  if (kernel.empty())
    throw ValueError(
        fmt::format("[{}] the kernel has no size; expected one, or {} (one for each spatial dimension)", op, rank));
  const List k = spread(op, "kernel", kernel, rank, 1, 1), padding = spread(op, "padding", how.padding, rank, 0, 0),
             dilation = spread(op, "dilation", how.dilation, rank, 1, 1);
  const List stride = how.stride.empty() ? k : spread(op, "stride", how.stride, rank, 1, 1);
  Sides sides;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    const int axis = x.rank() - rank + static_cast<int>(d);
    Side side{axis, x.dim(axis), 0, k[d], stride[d], padding[d], dilation[d]};
    side.out = out_size(op, side, how.ceil);
    sides.push_back(side);
  }
  return sides;
}

Tensor padded(const Tensor& x, const Sides& sides, double value) {
  std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(x.rank()), {0, 0});
  bool any = false;
  for (const Side& s : sides) {
    amounts[static_cast<size_t>(s.axis)] = {s.padding, s.after()};
    any = any || s.padding > 0 || s.after() > 0;
  }
  return any ? pad(x, amounts, value) : x;
}

// Whether as_windows() can take the windows: a third side would need so many dimensions that none of the eight is left
// for vmap().
bool side_by_side(const Tensor& x, const Sides& sides) {
  return sides.size() <= 2 && sides.back().axis + 1 == x.rank() &&
         std::ranges::all_of(sides, [](const Side& s) { return s.stride == s.kernel && s.dilation == 1; });
}

// Of windows that lie side by side: each of their dimensions as two, windows and elements, as a view. The gradient of
// an element is then laid beside the others', not between zeros.
Tensor as_windows(const Tensor& x, const Sides& sides) {
  std::vector<Slice> ranges(static_cast<size_t>(x.rank()));
  Shape shape;
  for (int d = 0; d < sides[0].axis; ++d) shape.push_back(x.dim(d));
  for (const Side& s : sides) {
    ranges[static_cast<size_t>(s.axis)] = {.start = 0, .stop = s.out * s.kernel};
    shape.push_back(s.out);
    shape.push_back(s.kernel);
  }
  return reshape(slice(x, ranges), shape);
}

// Element `at` (one number for each side) of all windows of as_windows().
Tensor element_of_windows(const Tensor& windows, const Sides& sides, const List& at) {
  std::vector<Slice> ranges(static_cast<size_t>(windows.rank()));
  Shape shape;
  for (int d = 0; d < sides[0].axis; ++d) shape.push_back(windows.dim(d));
  for (size_t d = 0; d < sides.size(); ++d) {
    ranges[static_cast<size_t>(sides[0].axis) + 2 * d + 1] = {.start = at[d], .stop = at[d] + 1};
    shape.push_back(sides[d].out);
  }
  return reshape(slice(windows, ranges), shape);
}

// The same of any windows: a strided slice of the padded input.
Tensor element(const Tensor& x, const Sides& sides, const List& at) {
  std::vector<Slice> ranges(static_cast<size_t>(x.rank()));
  for (size_t d = 0; d < sides.size(); ++d) {
    const Side& s = sides[d];
    const int64_t start = at[d] * s.dilation;
    ranges[static_cast<size_t>(s.axis)] = {
        .start = start, .stop = start + (s.out - 1) * s.stride + 1, .step = s.stride};
  }
  return slice(x, ranges);
}

// Calls f for every element of a window in row-major order.
void each_element(const Sides& sides, const std::function<void(const List&)>& f) {
  List at(sides.size(), 0);
  while (true) {
    f(at);
    size_t d = sides.size();
    while (d > 0 && ++at[d - 1] == sides[d - 1].kernel) at[--d] = 0;
    if (d == 0) return;
  }
}

// The windows' elements combined, all at once or along the last dimension first: the first of equal elements is the
// same.
template <class F>
Tensor combine(const Tensor& x, const Sides& sides, double outside, F f) {
  int64_t elements = 1;
  for (const Side& s : sides) elements *= s.kernel;
  if (elements > direct_elements && sides.size() > 1) {
    Tensor y = x;
    for (size_t d = sides.size(); d > 0; --d) y = combine(y, Sides{sides[d - 1]}, outside, f);
    return y;
  }
  const bool split = side_by_side(x, sides);
  const Tensor in = split ? as_windows(padded(x, sides, outside), sides) : padded(x, sides, outside);
  Tensor result;
  each_element(sides, [&](const List& at) {
    const Tensor v = split ? element_of_windows(in, sides, at) : element(in, sides, at);
    result = result.defined() ? f(result, v) : v;
  });
  return result;
}

constexpr double lowest = -std::numeric_limits<double>::infinity();
// Whether v takes the place of the best so far: a NaN stays.
Tensor beats(const Tensor& v, const Tensor& best) { return v > best || v != v; }
Tensor larger(const Tensor& best, const Tensor& v) { return where(beats(v, best), v, best); }

// For readers of the graph: kernel, stride, padding before and after, and dilation, a side each.
void note_pool(const char* name, const Tensor& result, const Tensor& x, const Sides& sides) {
  if (!CompositeScope::active() || x.rank() != static_cast<int>(sides.size()) + 2) return;
  List numbers;
  for (const Side& s : sides) numbers.insert(numbers.end(), {s.kernel, s.stride, s.padding, s.after(), s.dilation});
  note_composite(name, result, {&x}, std::move(numbers));
}

Tensor max_pool(const char* op, int rank, const Tensor& x, const List& kernel, const PoolOptions& how) {
  const Tensor in = build::as_float(x);
  const Sides sides = sides_of(op, rank, in, kernel, how);
  const Tensor result = combine(in, sides, lowest, larger);
  note_pool("max_pool", result, in, sides);
  return result;
}

// Along one side: the place in x of element `at` of each window, of padding that of the window's first or of the last
// in x; rank of x, so that it broadcasts.
Tensor place(const Tensor& x, const Side& s, int64_t at) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) shape.push_back(d == s.axis ? s.out : 1);
  const Tensor number = arange(0, static_cast<double>(s.out), 1, DType::i32, &x.device());
  const Tensor from = number * static_cast<double>(s.stride) + static_cast<double>(at * s.dilation - s.padding);
  const Tensor first = s.dilation == 1 ? maximum(from, 0) : maximum(from, mod(from, static_cast<double>(s.dilation)));
  return reshape(minimum(first, static_cast<double>(s.in - 1)), shape);
}

Pooled max_pool_indices(const char* op, int rank, const Tensor& x, const List& kernel, const PoolOptions& how) {
  const Tensor in = build::as_float(x);
  const Sides sides = sides_of(op, rank, in, kernel, how);
  const Tensor wide = padded(in, sides, lowest);
  Tensor best, index;
  each_element(sides, [&](const List& at) {
    const Tensor v = element(wide, sides, at);
    Tensor here = place(in, sides[0], at[0]);
    for (size_t d = 1; d < sides.size(); ++d)
      here = here * static_cast<double>(sides[d].in) + place(in, sides[d], at[d]);
    here = expand(here, v.shape());
    const Tensor wins = best.defined() ? beats(v, best) : Tensor();
    index = best.defined() ? where(wins, here, index) : here;
    best = best.defined() ? where(wins, v, best) : v;
  });
  return {best, cast(index, DType::i64)};
}

// How many elements the windows along one side have, to divide by: a number, or a tensor that broadcasts.
Tensor divided(const Tensor& sums, const Side& s, bool count_padding) {
  const int64_t covered = (s.out - 1) * s.stride + s.kernel;
  const bool whole = covered <= s.in + s.padding + (count_padding ? s.padding : 0) && (count_padding || s.padding == 0);
  if (whole) return sums * (1.0 / static_cast<double>(s.kernel));
  const Tensor begin =
      arange(0, static_cast<double>(s.out), 1, DType::i32, &sums.device()) * static_cast<double>(s.stride) -
      static_cast<double>(s.padding);
  const Tensor end =
      minimum(begin + static_cast<double>(s.kernel), static_cast<double>(s.in + (count_padding ? s.padding : 0)));
  Shape shape;
  for (int d = 0; d < sums.rank(); ++d) shape.push_back(d == s.axis ? s.out : 1);
  return sums / reshape(cast(end - (count_padding ? begin : maximum(begin, 0)), sums.dtype()), shape);
}

Tensor add_up(const Tensor& sum, const Tensor& v) { return sum + v; }

void refuse_dilation(const char* op, const PoolOptions& how) {
  if (!how.dilation.empty()) throw ValueError(fmt::format("[{}] dilation is for maxima only", op));
}

Tensor avg_pool(const char* op, int rank, const Tensor& x, const List& kernel, const PoolOptions& how) {
  refuse_dilation(op, how);
  const Tensor in = build::as_float(x);
  const Sides sides = sides_of(op, rank, in, kernel, how);
  Tensor y = combine(build::widen(in), sides, 0, add_up);
  for (const Side& s : sides) y = divided(y, s, how.count_padding);
  const Tensor result = cast(y, in.dtype());
  note_pool(how.count_padding ? "avg_pool_with_padding" : "avg_pool", result, in, sides);
  return result;
}

Tensor lp_pool(const char* op, int rank, const Tensor& x, double p, const List& kernel, const PoolOptions& how) {
  refuse_dilation(op, how);
  if (!(p > 0) || std::isinf(p)) throw ValueError(fmt::format("[{}] p is {}; it must be positive and finite", op, p));
  if (!how.padding.empty()) throw ValueError(fmt::format("[{}] takes no padding; pad() the input", op));
  const Tensor in = build::as_float(x), wide = build::widen(in);
  const Tensor powers = p == 1 ? abs(wide) : p == 2 ? square(wide) : pow(abs(wide), p);
  const Tensor total = combine(powers, sides_of(op, rank, in, kernel, how), 0, add_up);
  const Tensor none = total == 0, base = where(none, 1, total);
  return cast(p == 1 ? total : where(none, 0, p == 2 ? sqrt(base) : pow(base, 1 / p)), in.dtype());
}

List adaptive_size(const char* op, int rank, const Tensor& x, const List& size) {
  check_rank(op, x, rank);
  if (size.empty())
    throw ValueError(
        fmt::format("[{}] no size is given; expected one, or {} (one for each spatial dimension)", op, rank));
  for (int d = x.rank() - rank; d < x.rank(); ++d) {
    if (x.dim(d) == 0)
      throw ShapeError(fmt::format("[{}] x is {}: an empty spatial dimension has no bins", op, x.shape().str()));
  }
  return spread(op, "size", size, rank, 1, 1);
}

// Axis as (out, in / out), its elements reduced by f over the second.
template <class F>
Tensor even_bins(const Tensor& x, int axis, int64_t out, F f) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    shape.push_back(d == axis ? out : x.dim(d));
    if (d == axis) shape.push_back(x.dim(d) / out);
  }
  return f(reshape(x, shape), std::vector<int>{axis + 1});
}

// Which elements belong to which bin: (out, in), rows adding up to 1.
Tensor bin_weights(const Tensor& x, int64_t in, int64_t out) {
  const auto numbers = [&](int64_t n) { return arange(0, static_cast<double>(n), 1, DType::i32, &x.device()); };
  const double n = static_cast<double>(in), o = static_cast<double>(out);
  const Tensor bin = unsqueeze(numbers(out), 1) * n, at = unsqueeze(numbers(in), 0) * o;
  const Tensor belongs = cast(at > bin - o && at < bin + n, x.dtype());
  return belongs / sum(belongs, {1}, true);
}

Tensor adaptive_avg(const char* op, int rank, const Tensor& x, const List& given) {
  const Tensor in = build::as_float(x);
  const List size = adaptive_size(op, rank, in, given);
  Tensor y = build::widen(in);
  for (int d = 0; d < rank; ++d) {
    const int axis = x.rank() - rank + d;
    const int64_t out = size[static_cast<size_t>(d)], n = y.dim(axis);
    if (n == out) continue;
    if (n % out == 0) {
      y = even_bins(y, axis, out, [](const Tensor& t, std::vector<int> axes) { return mean(t, std::move(axes)); });
    } else {
      const bool last = axis == y.rank() - 1;
      const Tensor turned = last ? y : transpose(y, axis, -1);
      const Tensor made = build::plain_matmul(turned, transpose(bin_weights(y, n, out)));
      y = last ? made : transpose(made, axis, -1);
    }
  }
  return cast(y, in.dtype());
}

Tensor adaptive_max(const char* op, int rank, const Tensor& x, const List& given) {
  Tensor y = build::as_float(x);
  const List size = adaptive_size(op, rank, y, given);
  for (int d = rank; d-- > 0;) {
    const int axis = x.rank() - rank + d;
    const int64_t out = size[static_cast<size_t>(d)], n = y.dim(axis);
    if (n == out) continue;
    if (n % out == 0) {
      y = even_bins(y, axis, out, [](const Tensor& t, std::vector<int> axes) { return max(t, std::move(axes)); });
      continue;
    }
    // Bins of different lengths: the shorter ones take their last element again.
    // i n / out leaves at most out - g / out over, g the greatest common divisor.
    const int64_t longest = (n + out - std::gcd(n, out) + out - 1) / out;
    const DType t = build::times(out + 1, n + 1) <= INT32_MAX ? DType::i32 : DType::i64;
    const auto numbers = [&](int64_t count) { return arange(0, static_cast<double>(count), 1, t, &x.device()); };
    const Tensor bin = unsqueeze(numbers(out), 1) * static_cast<double>(n),
                 divisor = full_like(bin, static_cast<double>(out));
    const Tensor first = integer_quotient(bin, divisor),
                 last = integer_quotient(bin + static_cast<double>(n + out - 1), divisor) - 1;
    y = max(take(y, minimum(first + unsqueeze(numbers(longest), 0), last), axis),
            {axis + 1});  // of (..., out, longest, ...)
  }
  return y;
}

Tensor global_pool(const char* op, const Tensor& x, Tensor (*f)(const Tensor&, std::vector<int>, bool, Caller)) {
  if (x.rank() < 3) throw ShapeError(fmt::format("[{}] x is {}; expected (N, C, spatial...)", op, x.shape().str()));
  std::vector<int> axes;
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return f(build::as_float(x), axes, true, Caller::current());
}

}  // namespace

#define HEDDLE_POOLS(rank)                                                                                            \
  Tensor max_pool##rank##d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options, Caller caller) { \
    const CallerScope scope(caller);                                                                                  \
    return max_pool("max_pool" #rank "d", rank, x, kernel, options);                                                  \
  }                                                                                                                   \
  Pooled max_pool##rank##d_with_indices(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options,     \
                                        Caller caller) {                                                              \
    const CallerScope scope(caller);                                                                                  \
    return max_pool_indices("max_pool" #rank "d_with_indices", rank, x, kernel, options);                             \
  }                                                                                                                   \
  Tensor avg_pool##rank##d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options, Caller caller) { \
    const CallerScope scope(caller);                                                                                  \
    return avg_pool("avg_pool" #rank "d", rank, x, kernel, options);                                                  \
  }                                                                                                                   \
  Tensor adaptive_avg_pool##rank##d(const Tensor& x, std::vector<int64_t> size, Caller caller) {                      \
    const CallerScope scope(caller);                                                                                  \
    return adaptive_avg("adaptive_avg_pool" #rank "d", rank, x, size);                                                \
  }                                                                                                                   \
  Tensor adaptive_max_pool##rank##d(const Tensor& x, std::vector<int64_t> size, Caller caller) {                      \
    const CallerScope scope(caller);                                                                                  \
    return adaptive_max("adaptive_max_pool" #rank "d", rank, x, size);                                                \
  }
HEDDLE_POOLS(1)
HEDDLE_POOLS(2)
HEDDLE_POOLS(3)
#undef HEDDLE_POOLS

Tensor lp_pool1d(const Tensor& x, double p, std::vector<int64_t> kernel, const PoolOptions& options, Caller caller) {
  const CallerScope scope(caller);
  return lp_pool("lp_pool1d", 1, x, p, kernel, options);
}
Tensor lp_pool2d(const Tensor& x, double p, std::vector<int64_t> kernel, const PoolOptions& options, Caller caller) {
  const CallerScope scope(caller);
  return lp_pool("lp_pool2d", 2, x, p, kernel, options);
}

Tensor global_avg_pool(TensorArg x) {
  const CallerScope scope(x.caller);
  return global_pool("global_avg_pool", x.tensor, mean);
}
Tensor global_max_pool(TensorArg x) {
  const CallerScope scope(x.caller);
  return global_pool("global_max_pool", x.tensor, max);
}

namespace {

// Where `count` windows of `width` begin in `size` elements, i32: floor((i + u) a) - floor(u a) with a = (size - width)
// / (count - 1), the last at the end. u (N, C, 1).
Tensor random_starts(const Tensor& u, int64_t size, int64_t width, int64_t count) {
  const Shape shape{u.dim(0), u.dim(1), count};
  const Tensor place = build::positions(shape, 2, u.device());
  const Tensor end = full(shape, static_cast<double>(size - width), DType::i32, &u.device());
  if (count == 1) return end;
  const double step = static_cast<double>(size - width) / static_cast<double>(count - 1);
  const Tensor begin = cast(floor((cast(place, u.dtype()) + u) * step) - floor(u * step), DType::i32);
  return where(place == static_cast<double>(count - 1), end, begin);
}

}  // namespace

Pooled fractional_max_pool2d(const Tensor& x, std::vector<int64_t> kernel, std::vector<int64_t> output,
                             const Tensor& samples, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() != 4)
    throw ShapeError(fmt::format("[fractional_max_pool2d] x is {}; expected (N, C, H, W)", x.shape().str()));
  for (List* list : {&kernel, &output}) {
    if (list->size() == 1) list->push_back(list->front());
    if (list->size() != 2)
      throw ValueError(fmt::format("[fractional_max_pool2d] the {} has {} entries; expected one, or two",
                                   list == &kernel ? "kernel" : "output", list->size()));
  }
  for (int d = 0; d < 2; ++d) {
    const auto i = static_cast<size_t>(d);
    if (kernel[i] >= 1 && output[i] >= 1 && kernel[i] <= x.dim(2 + d) && output[i] <= x.dim(2 + d) - kernel[i] + 1)
      continue;
    throw ValueError(
        fmt::format("[fractional_max_pool2d] {} windows of {} do not cover the {} elements of axis {} of {}; output + "
                    "kernel - 1 must not be larger",
                    output[i], kernel[i], x.dim(2 + d), 2 + d, x.shape().str()));
  }
  const Shape pairs{x.dim(0), x.dim(1), 2};
  if (samples.defined() && samples.shape() != pairs) {
    throw ShapeError(
        fmt::format("[fractional_max_pool2d] samples are {}; expected {}", samples.shape().str(), pairs.str()));
  }
  const Tensor in = build::as_float(x), u = samples.defined() ? build::widen(build::as_float(stop_gradient(samples)))
                                                              : uniform(pairs, 0, 1, &x.device(), generator);
  const int64_t n = x.dim(0), c = x.dim(1), width = x.dim(3);
  const auto starts = [&](int d) {  // the pair begins with the width's
    const auto i = static_cast<size_t>(d);
    return random_starts(slice(u, 2, {.start = 1 - d, .stop = 2 - d}), x.dim(2 + d), kernel[i], output[i]);
  };
  const Shape windows{n, c, output[0], output[1], kernel[0], kernel[1]};
  const Tensor row = reshape(starts(0), Shape{n, c, output[0], 1, 1, 1}) + build::positions(windows, 4, x.device());
  const Tensor column = reshape(starts(1), Shape{n, c, 1, output[1], 1, 1}) + build::positions(windows, 5, x.device());
  const Shape flat{n, c, output[0] * output[1] * kernel[0] * kernel[1]},
      grouped{n, c, output[0], output[1], kernel[0] * kernel[1]};
  const Tensor place = row * static_cast<double>(width) + column;
  const Tensor seen = reshape(gather(reshape(in, Shape{n, c, x.dim(2) * width}), 2, reshape(place, flat)), grouped);
  const Tensor best = argmax(seen, 4, true);
  return {squeeze(gather(seen, 4, best), 4), cast(squeeze(gather(reshape(place, grouped), 4, best), 4), DType::i64)};
}

}  // namespace heddle
