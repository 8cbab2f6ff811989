// Elementwise functions composed of rows: arithmetic and tests.
#include "heddle/core/functions/math/math.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/rounded_once.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {
namespace {

using build::as_float;
using build::rounded_once;

// Two operands as floats of their common dtype; errors name the function instead of what it is composed of.
struct Pair {
  Tensor x, y;
};
Pair floats(const char* op, const Tensor& x, const Tensor& y) {
  build::check_device(x, y, op);
  broadcast_shapes(x.shape(), y.shape(), op);
  const DType common = promote(x.dtype(), y.dtype()), t = is_float(common) ? common : DType::f32;
  return {cast(x, t), cast(y, t)};
}

Tensor scalar_like(const Tensor& x, double value) {
  return build::constant_like(x, value, build::number_dtype(value, x.dtype()));
}

// Whether y is a shift within x's bits, and that shift in steps of at most 31, as the rows take them.
struct Shift {
  Tensor inside;
  std::vector<Tensor> steps;
};
Shift shift_of(const Tensor& x, const Tensor& y) {
  const int bits = static_cast<int>(size_of(x.dtype())) * 8;
  Shift shift{y >= 0 && y < bits, {}};
  Tensor rest = cast(where(shift.inside, y, 0), x.dtype());
  for (int most = bits - 1; most > 0; most -= 31) {
    shift.steps.push_back(most > 31 ? minimum(rest, 31) : rest);
    if (most > 31) rest = rest - shift.steps.back();
  }
  return shift;
}

double largest(DType t) {
  switch (t) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.FEp127;
    case DType::f64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

// Scaled by the larger of the two, which is a constant to its derivatives: a maximum would give wrong second ones where
// both are equal.
Tensor hypot_of(const Tensor& x, const Tensor& y) {
  const Tensor largest = stop_gradient(maximum(abs(x), abs(y)));
  const Tensor none = largest == 0, scale = where(none || isinf(largest), 1, largest);
  const Tensor u = x / scale, v = y / scale, length = where(none, 0, scale * sqrt(where(none, 1, u * u + v * v)));
  return where(isinf(x) || isinf(y), std::numeric_limits<double>::infinity(), length);  // an infinity beside a NaN too
}

// high + log(e^(low - high) + e^(high - high)), where the constant `high` leaves no difference of infinities and 1 +
// expm1(0) no digit behind. Selected by a comparison and smooth in both, so derivatives of any order are right where
// both are equal.
Tensor logaddexp_of(const Tensor& x, const Tensor& y) {
  const Tensor less = x < y, high = where(less, y, x), low = where(less, x, y);
  const Tensor infinite = isinf(high) && low == low;
  const Tensor h = where(infinite, 0, high), m = stop_gradient(h);
  return where(infinite, high, m + log1p(exp(where(infinite, 0, low) - m) + expm1(h - m)));
}

// A quotient that rounds up to a whole number must not gain one: what the remainder leaves divides without a rest. By
// 0: as x / 0. By an infinity: the sign decides; n - n is NaN where n is no number.
Tensor quotient_below(const Tensor& n, const Tensor& d) {
  const Tensor regular = where(d == 0 || isinf(d), 1, d);
  const Tensor quotient = round((n - mod(n, regular)) / regular);
  return where(d == 0, n / d, where(isinf(d), (n - n) - cast(n != 0 && (n < 0) != (d < 0), n.dtype()), quotient));
}

}  // namespace

Tensor hypot(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  const auto [p, q] = floats("hypot", a.tensor, b);
  return rounded_once(hypot_of, p, q);
}

Tensor logaddexp(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  const auto [p, q] = floats("logaddexp", a.tensor, b);
  return rounded_once(logaddexp_of, Autocast::f32, p, q);
}

Tensor xlogy(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  const auto [p, q] = floats("xlogy", a.tensor, b);
  const auto product = [](const Tensor& x, const Tensor& y) {
    const Tensor none = x == 0 && (y <= 0 || y == std::numeric_limits<double>::infinity());
    return where(none, 0, x * log(where(none, 1, y)));
  };
  return rounded_once(product, Autocast::f32, p, q);
}

Tensor remainder(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  return mod(x.tensor, y);
}
Tensor remainder(TensorArg x, double y) {
  const CallerScope scope(x.caller);
  return mod(x.tensor, y);
}

Tensor fmod(TensorArg a, const Tensor& y) {
  const CallerScope scope(a.caller);
  const Tensor& x = a.tensor;
  if (promote(x.dtype(), y.dtype()) == DType::boolean) return fmod(cast(x, DType::i32), y);
  if (!is_float(x.dtype()) && !is_float(y.dtype())) {  // without -x or |y|, which the least integer does not have
    const Tensor r = mod(x, y);
    return where((r != 0) && ((r < 0) != (x < 0)), r - y, r);
  }
  const Tensor size = abs(y);
  return where(x < 0, -mod(-x, size), mod(x, size));
}
Tensor fmod(TensorArg x, double y) {
  const CallerScope scope(x.caller);
  return fmod(x.tensor, scalar_like(x.tensor, y));
}

Tensor floor_divide(TensorArg a, const Tensor& y) {
  const CallerScope scope(a.caller);
  const Tensor& x = a.tensor;
  if (!is_float(x.dtype()) && !is_float(y.dtype())) return integer_quotient(x, y);
  const auto [n, d] = floats("floor_divide", x, y);
  return rounded_once(quotient_below, n, d);
}
Tensor floor_divide(TensorArg x, double y) {
  const CallerScope scope(x.caller);
  return floor_divide(x.tensor, scalar_like(x.tensor, y));
}

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight, Caller caller) {
  const CallerScope scope(caller);
  const auto [p, q] = floats("lerp", start, end);
  const DType common = promote(p.dtype(), weight.dtype());
  return rounded_once(
      [](const Tensor& x, const Tensor& y, const Tensor& w) {
        const Tensor near = abs(w) < 0.5;  // from the nearer end: exact at both
        return where(near, x, y) + where(near, w, w - 1) * (y - x);
      },
      cast(p, common), cast(q, common), cast(weight, common));
}
Tensor lerp(const Tensor& start, const Tensor& end, double weight, Caller caller) {
  const CallerScope scope(caller);
  const auto [p, q] = floats("lerp", start, end);
  const bool near = std::abs(weight) < 0.5;
  return rounded_once(
      [&](const Tensor& x, const Tensor& y) { return (near ? x : y) + (near ? weight : weight - 1) * (y - x); }, p, q);
}

namespace {

// x + f(a, b), rounded once where the three promote to a 16-bit float.
template <class F>
Tensor added(const char* op, const Tensor& x, const Tensor& a, const Tensor& b, F f) {
  build::check_device(x, a, op);
  build::check_device(x, b, op);
  const DType common = promote(x.dtype(), promote(a.dtype(), b.dtype()));
  if (!is_half(common)) return x + f(a, b);
  return rounded_once([&](const Tensor& base, const Tensor& c, const Tensor& d) { return base + f(c, d); },
                      cast(x, common), cast(a, common), cast(b, common));
}

}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value, Caller caller) {
  const CallerScope scope(caller);
  return added("addcmul", x, a, b,
               [value](const Tensor& c, const Tensor& d) { return value == 1 ? c * d : value * (c * d); });
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value, Caller caller) {
  const CallerScope scope(caller);
  return added("addcdiv", x, a, b,
               [value](const Tensor& c, const Tensor& d) { return value == 1 ? c / d : value * (c / d); });
}

Tensor frac(TensorArg x) {
  const CallerScope scope(x.caller);
  return x.tensor - trunc(x.tensor);
}
Tensor deg2rad(TensorArg x) {
  const CallerScope scope(x.caller);
  return as_float(x.tensor) * (std::numbers::pi / 180);
}
Tensor rad2deg(TensorArg x) {
  const CallerScope scope(x.caller);
  return as_float(x.tensor) * (180 / std::numbers::pi);
}

Tensor sinc(TensorArg a) {
  const CallerScope scope(a.caller);
  const Tensor x = as_float(a.tensor), zero = x == 0;
  const Tensor angle = std::numbers::pi * build::widen(where(zero, 1, x));  // in 16 bits the angle would be off by much
  return where(zero, 1, cast(sin(angle) / angle, x.dtype()));
}

Tensor digamma(TensorArg a) {
  const CallerScope scope(a.caller);
  const Tensor given = as_float(a.tensor), x = build::widen(given);
  const Tensor left = x < 0.5, y = where(left, 1 - x, x), z = y + 6;
  const Tensor w = 1 / (z * z);
  Tensor series = full_like(w, 1.0 / 12);  // B_2k / 2k from k = 7 down to 1
  for (const double c : {-691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12})
    series = c + w * series;
  Tensor psi = log(z) - 0.5 / z - w * series;
  for (int k = 0; k < 6; ++k) psi = psi - 1 / (y + k);
  const Tensor inside = where(left, x, 0.25);
  const Tensor turn =
      inside - round(inside);  // exact, also beside 0; from the floor a small negative x loses its digits
  const Tensor value = where(left, psi - std::numbers::pi / tan(std::numbers::pi * turn), psi);
  return cast(where(x < 0 && x == floor(x), std::numeric_limits<double>::quiet_NaN(), value),
              given.dtype());  // poles with both signs
}

Tensor heaviside(TensorArg a, const Tensor& at_zero) {
  const CallerScope scope(a.caller);
  const Tensor& x = a.tensor;
  return where(x == 0, at_zero, where(x != x, x, cast(x > 0, x.dtype())));
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> infinity, std::optional<double> minus_infinity,
                  Caller caller) {
  const CallerScope scope(caller);
  if (!is_float(x.dtype())) return x;
  const double high = infinity.value_or(largest(x.dtype())), low = minus_infinity.value_or(-largest(x.dtype()));
  return where(isnan(x), nan, where(isinf(x), where(x > 0, full_like(x, high), full_like(x, low)), x));
}

Tensor bitwise_left_shift(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  const Shift shift = shift_of(x.tensor, y);
  Tensor shifted = x.tensor;
  for (const Tensor& step : shift.steps) shifted = shift_left(shifted, step);
  return where(shift.inside, shifted, 0);
}
Tensor bitwise_right_shift(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  const Shift shift = shift_of(x.tensor, y);
  Tensor shifted = x.tensor;
  for (const Tensor& step : shift.steps) shifted = shift_right(shifted, step);
  return where(shift.inside, shifted, where(x.tensor < 0, full_like(x.tensor, -1), zeros_like(x.tensor)));
}

Tensor isfinite(TensorArg a) {
  const CallerScope scope(a.caller);
  const Tensor& x = a.tensor;
  return is_float(x.dtype()) ? !(isnan(x) || isinf(x)) : full(x.shape(), 1, DType::boolean, &x.device());
}
Tensor logical_xor(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  return cast(x.tensor, DType::boolean) != cast(y, DType::boolean);
}

Tensor isclose(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan, Caller caller) {
  const CallerScope scope(caller);
  if (!(relative >= 0) || !(absolute >= 0))
    throw ValueError(
        fmt::format("[isclose] tolerances must not be negative: relative {}, absolute {}", relative, absolute));
  const auto [p, q] = floats("isclose", a, b);
  const Tensor x = build::widen(p), y = build::widen(q);
  const Tensor close = x == y || (isfinite(y) && abs(x - y) <= absolute + relative * abs(y));
  return equal_nan ? close || (isnan(x) && isnan(y)) : close;
}

}  // namespace heddle
