// Special functions: Chebyshev series (chebyshev.h), asymptotic series, and rules for their derivatives.
#include "heddle/core/functions/math/special.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/chebyshev.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/math.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/graph/custom.h"

namespace heddle {

using namespace chebyshev;

namespace {

// As f32 or f64, and back.
template <class F>
Tensor in_wide(const Tensor& x, F f) {
  const Tensor in = build::as_float(x);
  return cast(f(build::widen(in)), in.dtype());
}

// f(x), differentiated by what slope(x, f(x)) records.
Tensor with_slope(const char* name, const Tensor& x, const std::function<Tensor(const Tensor&)>& f,
                  std::function<Tensor(const Tensor& x, const Tensor& y)> slope) {
  auto rule = std::make_shared<CustomRule>();
  rule->name = name;
  rule->arguments = 1;
  rule->vjp = [slope](std::span<const Tensor> in, const Tensor& g) {
    return std::vector<Tensor>{g * slope(in[1], in[0])};
  };
  rule->jvp = [slope](std::span<const Tensor> in, std::span<const Tensor> tangents) {
    return tangents[0] * slope(in[1], in[0]);
  };
  return make_custom(f(stop_gradient(x)), std::span(&x, 1), std::move(rule));
}

// minimum() and maximum() with the slope of the inside on the bound.
Tensor at_most(const Tensor& a, double high) { return where(a > high, high, a); }
Tensor at_least(const Tensor& a, double low) { return where(a < low, low, a); }

// ---- modified Bessel functions, times exp(-|x|). a = |x|.
Tensor near_and_far(const Tensor& a, const Series& near, const Series& far, bool over_x) {
  const Tensor inner = sum_of(near, at_most(a, 8) * 0.25 - 1), outer = at_least(a, 8);
  const Tensor tail = sum_of(far, 16 / outer - 1) * rsqrt(outer);
  return where(a <= 8, inner, over_x ? tail / outer : tail);
}
Tensor scaled_i0(const Tensor& x) { return near_and_far(abs(x), i0_near, i0_far, false); }
Tensor scaled_i1_over_x(const Tensor& x) { return near_and_far(abs(x), i1_near, i1_far, true); }

Tensor scaled_i1(const Tensor& x) {
  const Tensor ends = isinf(x), v = where(ends, 1, x);
  return where(ends, 0, v * scaled_i1_over_x(v));
}
Tensor plain_i1_over_x(const Tensor& x) { return exp(abs(x)) * scaled_i1_over_x(x); }

Tensor wide_i0(const Tensor& x);
Tensor wide_i0e(const Tensor& x);
Tensor wide_i1(const Tensor& x) {
  return with_slope(
      "bessel_i1", x, [](const Tensor& v) { return v * plain_i1_over_x(v); },
      [](const Tensor& v, const Tensor&) { return wide_i0(v) - plain_i1_over_x(v); });
}
Tensor wide_i0(const Tensor& x) {
  return with_slope(
      "bessel_i0", x, [](const Tensor& v) { return exp(abs(v)) * scaled_i0(v); },
      [](const Tensor& v, const Tensor&) { return wide_i1(v); });
}
Tensor wide_i1e(const Tensor& x) {
  return with_slope("bessel_i1e", x, scaled_i1, [](const Tensor& v, const Tensor&) {
    return wide_i0e(v) - scaled_i1_over_x(v) - sign(v) * wide_i1e(v);
  });
}
Tensor wide_i0e(const Tensor& x) {
  return with_slope("bessel_i0e", x, scaled_i0,
                    [](const Tensor& v, const Tensor&) { return wide_i1e(v) - sign(v) * wide_i0e(v); });
}

// ---- Bessel functions of the first kind: sqrt(2 / pi a) (P cos(a - w) - Q sin(a - w)) far out, w = pi / 4 or 3 pi
// / 4. Of the second: P sin(a - w) + Q cos(a - w).
Tensor oscillating(const Tensor& a, const Series& p, const Series& q, int order, bool second = false) {
  const Tensor outer = at_least(a, 8), u = 8 / outer, t = 2 * (u * u) - 1;
  const Tensor c = cos(outer), s = sin(outer);
  const Tensor cosine = order == 0 ? c + s : s - c, sine = order == 0 ? s - c : -(s + c);  // times sqrt(2)
  const Tensor wave =
      second ? sum_of(p, t) * sine + u * sum_of(q, t) * cosine : sum_of(p, t) * cosine - u * sum_of(q, t) * sine;
  return wave * (std::numbers::inv_sqrtpi * rsqrt(outer));
}
Tensor inner_square(const Tensor& a) {
  const Tensor v = at_most(a, 8) * 0.125;
  return 2 * (v * v) - 1;
}
Tensor j1_over_x(const Tensor& x) {
  const Tensor a = abs(x);
  return where(a <= 8, sum_of(j1_near, inner_square(a)), oscillating(a, p1, q1, 1) / at_least(a, 8));
}
Tensor wide_j0(const Tensor& x);
Tensor wide_j1(const Tensor& x) {
  return with_slope(
      "bessel_j1", x, [](const Tensor& v) { return where(isinf(v), 0, v * j1_over_x(where(isinf(v), 1, v))); },
      [](const Tensor& v, const Tensor&) { return wide_j0(v) - j1_over_x(v); });
}
Tensor wide_j0(const Tensor& x) {
  const auto value = [](const Tensor& given) {
    const Tensor ends = isinf(given), a = abs(where(ends, 1, given));
    return where(ends, 0, where(a <= 8, sum_of(j0_near, inner_square(a)), oscillating(a, p0, q0, 0)));
  };
  return with_slope("bessel_j0", x, value, [](const Tensor& v, const Tensor&) { return -wide_j1(v); });
}

// ---- Bessel functions of the second kind, of x > 0: -infinity at 0, NaN below
Tensor second_kind(const Tensor& x, int order) {
  const Tensor inside = x > 0 && !isinf(x), a = where(inside, x, 1), near = at_most(a, 8), t = inner_square(near);
  const Tensor logarithm = (2 / std::numbers::pi) * log(0.5 * near);
  const Tensor inner =
      order == 0 ? logarithm * sum_of(j0_near, t) + sum_of(y0_rest, t)
                 : near * (logarithm * sum_of(j1_near, t) + sum_of(y1_rest, t)) - (2 / std::numbers::pi) / near;
  const Tensor outer = order == 0 ? oscillating(a, p0, q0, 0, true) : oscillating(a, p1, q1, 1, true);
  const Tensor ends = where(x == 0, -std::numeric_limits<double>::infinity(),
                            where(x > 0, zeros_like(x), std::numeric_limits<double>::quiet_NaN()));
  return where(inside, where(a <= 8, inner, outer), ends);
}
Tensor wide_y0(const Tensor& x);
Tensor wide_y1(const Tensor& x) {
  return with_slope(
      "bessel_y1", x, [](const Tensor& v) { return second_kind(v, 1); },
      [](const Tensor& v, const Tensor&) { return wide_y0(v) - wide_y1(v) / v; });
}
Tensor wide_y0(const Tensor& x) {
  return with_slope(
      "bessel_y0", x, [](const Tensor& v) { return second_kind(v, 0); },
      [](const Tensor& v, const Tensor&) { return -wide_y1(v); });
}

// ---- zeta
Tensor zeta_value(const Tensor& s, const Tensor& q) {
  constexpr int direct = 9;
  const Tensor inside = s > 1 && q > 0, p = where(inside, s, 2), base = where(inside, q, 1);
  const Tensor end = base + direct, power = pow(end, -p);
  Tensor total = end * power / (p - 1) + 0.5 * power;
  for (int k = 0; k < direct; ++k) total = total + pow(base + k, -p);
  // B_2j / (2j)! s (s + 1) ... (s + 2j - 2) end^(1 - 2j - s)
  const double bernoulli[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0};
  Tensor factor = p / end;
  for (int j = 0; j < 7; ++j) {
    total = total + bernoulli[j] * (factor * power);
    if (j < 6) factor = factor * ((p + (2 * j + 1)) / end) * ((p + (2 * j + 2)) / end);
  }
  return where(inside, total,
               where(s == 1, full_like(p, std::numeric_limits<double>::infinity()),
                     full_like(p, std::numeric_limits<double>::quiet_NaN())));
}
// The gradient is in q.
Tensor wide_zeta(const Tensor& s, const Tensor& q) {
  return with_slope(
      "zeta", q, [&](const Tensor& v) { return zeta_value(stop_gradient(s), v); },
      [s = stop_gradient(s)](const Tensor& v, const Tensor&) { return -s * wide_zeta(s + 1, v); });
}

// ---- the error function times exp(x^2). Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2)
// erfc(x)", 1981.
Tensor wide_erfcx(const Tensor& x) {
  const Tensor a = where(x < 0, -x, x), ends = isinf(a), b = where(ends, 1, a);  // not abs(): it has no slope at 0
  const Tensor right = where(ends, 0, sum_of(erfcx_series, (b - 3.75) / (b + 3.75)) / (1 + 2 * b));
  const Tensor low = minimum(x, 0);
  return where(x < 0, 2 * exp(low * low) - right, right);
}

// Phi^-1. M. Wichura, "Algorithm AS 241", 1988, seven digits; one step of Newton's method for f64.
Tensor ratio(const Tensor& r, std::vector<double> above, std::vector<double> below) {
  const auto horner = [&](const std::vector<double>& c) {
    Tensor v = full_like(r, c.back());
    for (size_t k = c.size() - 1; k-- > 0;) v = v * r + c[k];
    return v;
  };
  return horner(above) / horner(below);
}
Tensor quantile_value(const Tensor& p) {
  const Tensor q = p - 0.5, middle = abs(q) <= 0.425, safe = where(middle, q, 0);
  const Tensor centre = safe * ratio(0.180625 - safe * safe, {3.3871327179, 50.434271938, 159.29113202, 59.109374720},
                                     {1, 17.895169469, 78.757757664, 67.187563600});
  const Tensor tail = where(middle, 0.05, minimum(p, 1 - p)), r = sqrt(-log(where(tail > 0, tail, 0.05)));
  const Tensor near =
      ratio(r - 1.6, {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103}, {1, 0.73700164250, 0.12021132975});
  const Tensor far =
      ratio(r - 5, {6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997}, {1, 0.24197894225, 0.012258202635});
  const Tensor side = where(r <= 5, near, far);
  Tensor x = where(middle, centre, where(q < 0, -side, side));
  if (p.dtype() == DType::f64) {
    const Tensor error = where(q < 0, 0.5 * erfc(-x * (1 / std::numbers::sqrt2)) - p,
                               (1 - p) - 0.5 * erfc(x * (1 / std::numbers::sqrt2)));
    x = x - error * (std::sqrt(2 * std::numbers::pi) * exp(0.5 * x * x));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return where(p > 0 && p < 1, x,
               where(eq(p, 0), -infinity,
                     where(eq(p, 1), full_like(p, infinity), full_like(p, std::numeric_limits<double>::quiet_NaN()))));
}

}  // namespace

#define HEDDLE_SPECIAL(name, f)        \
  Tensor name(TensorArg x) {           \
    const CallerScope scope(x.caller); \
    return in_wide(x.tensor, f);       \
  }
HEDDLE_SPECIAL(bessel_i0, wide_i0)
HEDDLE_SPECIAL(bessel_i0e, wide_i0e)
HEDDLE_SPECIAL(bessel_i1, wide_i1)
HEDDLE_SPECIAL(bessel_i1e, wide_i1e)
HEDDLE_SPECIAL(bessel_j0, wide_j0)
HEDDLE_SPECIAL(bessel_j1, wide_j1)
HEDDLE_SPECIAL(bessel_y0, wide_y0)
HEDDLE_SPECIAL(bessel_y1, wide_y1)
HEDDLE_SPECIAL(erfcx, wide_erfcx)
#undef HEDDLE_SPECIAL

Tensor polygamma(int64_t n, TensorArg x) {
  const CallerScope scope(x.caller);
  if (n < 0 || n > 30) throw ValueError(fmt::format("[polygamma] n is {}; it must be in [0, 30]", n));
  if (n == 0) return digamma(x.tensor);
  return in_wide(x.tensor, [n](const Tensor& v) {
    const double factorial = std::tgamma(static_cast<double>(n) + 1);
    return (n % 2 == 0 ? -factorial : factorial) * wide_zeta(full_like(v, static_cast<double>(n) + 1), v);
  });
}

Tensor zeta(TensorArg s, const Tensor& q) {
  const CallerScope scope(s.caller);
  build::check_device(s.tensor, q, "zeta");
  const Shape shape = broadcast_shapes(s.tensor.shape(), q.shape(), "zeta");
  const DType common = promote(s.tensor.dtype(), q.dtype()), t = is_float(common) ? common : DType::f32;
  return cast(wide_zeta(build::broadcast(build::widen(cast(s.tensor, t)), shape),
                        build::broadcast(build::widen(cast(q, t)), shape)),
              t);
}

Tensor multigammaln(TensorArg x, int64_t p) {
  const CallerScope scope(x.caller);
  if (p < 1 || p > 64) throw ValueError(fmt::format("[multigammaln] p is {}; it must be in [1, 64]", p));
  return in_wide(x.tensor, [p](const Tensor& v) {
    const double dimension = static_cast<double>(p);
    Tensor total = lgamma(v) + 0.25 * dimension * (dimension - 1) * std::log(std::numbers::pi);
    for (int64_t j = 1; j < p; ++j) total = total + lgamma(v - 0.5 * static_cast<double>(j));
    return total;
  });
}

Tensor ndtr(TensorArg x) {
  const CallerScope scope(x.caller);
  return in_wide(x.tensor, [](const Tensor& v) { return 0.5 * erfc(v * (-1 / std::numbers::sqrt2)); });
}
Tensor log_ndtr(TensorArg x) {
  const CallerScope scope(x.caller);
  return in_wide(x.tensor, [](const Tensor& v) {
    const Tensor low = v < -1, left = where(low, v, -1), right = where(low, 0, v);
    return where(low, log(0.5 * wide_erfcx(left * (-1 / std::numbers::sqrt2))) - 0.5 * left * left,
                 log1p(-0.5 * erfc(right * (1 / std::numbers::sqrt2))));
  });
}
Tensor ndtri(TensorArg x) {
  const CallerScope scope(x.caller);
  return in_wide(x.tensor, [](const Tensor& v) {
    return with_slope("ndtri", v, quantile_value, [](const Tensor& p, const Tensor&) {
      const Tensor y = ndtri(p);
      return std::sqrt(2 * std::numbers::pi) * exp(0.5 * y * y);
    });
  });
}

Tensor entr(TensorArg x) {
  const CallerScope scope(x.caller);
  const auto value = [](const Tensor& v) {
    const Tensor inside = v > 0, safe = where(inside, v, 1);
    return where(inside, -safe * log(safe),
                 where(eq(v, 0), 0, where(v < 0, -std::numeric_limits<double>::infinity(), v)));
  };
  return in_wide(x.tensor, [value](const Tensor& v) {
    return with_slope("entr", v, value, [](const Tensor& at, const Tensor&) { return -log(at) - 1; });
  });
}
Tensor xlog1py(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  build::check_device(x.tensor, y, "xlog1py");
  broadcast_shapes(x.tensor.shape(), y.shape(), "xlog1py");
  const Tensor a = build::as_float(x.tensor), b = build::as_float(y),
               none = eq(a, 0) && (b <= -1 || b == std::numeric_limits<double>::infinity());
  return where(none, 0, a * log1p(where(none, 1, b)));
}
Tensor logaddexp2(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  build::check_device(x.tensor, y, "logaddexp2");
  broadcast_shapes(x.tensor.shape(), y.shape(), "logaddexp2");
  const Tensor a = build::as_float(x.tensor), b = build::as_float(y);
  return logaddexp(a * std::numbers::ln2, b * std::numbers::ln2) * (1 / std::numbers::ln2);
}

}  // namespace heddle
