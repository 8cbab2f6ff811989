// The incomplete gamma functions: one elementwise kernel with loops.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/user/user_kernel.h"

namespace heddle {
namespace {

constexpr int most_terms = 400;  // for a up to 1000 every series has ended by then

// scale = x^a e^-x / Gamma(a + 1). With u = x / a - 1 the integrand's logarithm at x, over that at a, is a (log(1 + u)
// - u): no large numbers that cancel. g = log Gamma(a + 1), which for a > 10 is Stirling's series.
const std::string scale_text = R"(
  T u = (x - a) / a, bend = u > -0.9 ? log1p(u) - u : log(x / a) - u;
  T power = a > 10.0 ? a * bend - 0.5 * log(6.283185307179586 * a) - 1.0 / (12.0 * a) + 1.0 / (360.0 * a * a * a) - 1.0 / (1260.0 * a * a * a * a * a)
                     : a * log(x) - x - g;
  T scale = exp(power);)";
const std::string parts_text = R"(
if (isnan(a) || isnan(x) || a < 0.0 || x < 0.0 || (a == 0.0 && x == 0.0) || (isinf(a) && isinf(x))) {
  p = NAN;
  q = NAN;
} else if (x == 0.0 || isinf(a)) {
  q = 1.0;
} else if (a == 0.0 || isinf(x)) {
  p = 1.0;
} else {)" + scale_text + R"(
  if (a > 1000.0) {
    T s = sqrt(max(-2.0 * bend, 0.0)), e = u < 0.0 ? -s : s;
    T c0 = -0.3333333333333333 + e * (0.08333333333333333 + e * (-0.014814814814814815 + e * (0.0011574074074074073 + e * 0.0003527336860670194)));
    T c1 = -0.001851851851851852 + e * (-0.003472222222222222 + e * 0.0026455026455026454);
    T rest = scale * (c0 + c1 / a), half = 0.5 * erf(e * sqrt(0.5 * a));
    q = 0.5 - half + rest;
    p = 0.5 + half - rest;
  } else if (x < a + 1.0) {
    T total = 1.0, term = 1.0, k = a;
    for (int i = 0; i < 400; ++i) {
      k = k + 1.0;
      term = term * (x / k);
      T next = total + term;
      if (next == total) break;
      total = next;
    }
    p = scale * total;
    q = 1.0 - p;
  } else {
    T b = x + 1.0 - a, c = 1e30, d = 1.0 / b, h = d, k = 0.0;
    for (int i = 0; i < 400; ++i) {
      k = k + 1.0;
      T n = k * (a - k);
      b = b + 2.0;
      d = 1.0 / (n * d + b);
      c = b + n / c;
      T next = h * (c * d);
      if (next == h) break;
      h = next;
    }
    q = scale * a * h;
    p = 1.0 - q;
  }
})";

// The slope of p in x: x^(a - 1) e^-x / Gamma(a).
const std::string density_text = R"(
if (!(a >= 0.0 && x >= 0.0)) {
  d = NAN;
} else if (x > 0.0) {
  if (a > 0.0 && !isinf(x)) {)" + scale_text +
                                 R"(
    d = scale * (a / x);
  }
} else {
  d = a > 1.0 ? 0.0 : a == 1.0 ? 1.0 : INFINITY;
})";

// The same on the host.
void parts_on_host(std::span<const double> in, std::span<double> out) {
  const double a = in[0], x = in[1], g = in[2];
  double &p = out[0], &q = out[1];
  p = q = 0;
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (std::isinf(a) && std::isinf(x))) {
    p = q = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  if (x == 0 || std::isinf(a)) {
    q = 1;
    return;
  }
  if (a == 0 || std::isinf(x)) {
    p = 1;
    return;
  }
  const double scale = std::exp(a * std::log(x) - x - g);
  if (x < a + 1) {
    double total = 1, term = 1;
    for (double k = a + 1; term > total * 1e-17; ++k) total += term *= x / k;
    p = scale * total;
    q = 1 - p;
    return;
  }
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (double k = 1; k < 1e6; ++k) {  // Lentz
    b += 2;
    d = 1 / (k * (a - k) * d + b);
    c = b + k * (a - k) / c;
    const double before = h;
    h *= c * d;
    if (std::abs(h - before) <= 1e-17 * h) break;
  }
  q = scale * a * h;
  p = 1 - q;
}

void density_on_host(std::span<const double> in, std::span<double> out) {
  const double a = in[0], x = in[1];
  out[0] = x > 0    ? std::exp((a - 1) * std::log(x) - x - std::lgamma(a))
           : x == 0 ? (a > 1    ? 0
                       : a == 1 ? 1
                                : INFINITY)
                    : NAN;
  if (!(a >= 0)) out[0] = NAN;
  if (std::isinf(x)) out[0] = x > 0 ? 0 : NAN;
}

const UserKernel& gamma_density() {
  static const UserKernel kernel =
      elementwise_kernel({.name = "gamma_density",
                          .inputs = {"a", "x", "g"},
                          .outputs = {"d"},
                          .text = density_text,
                          .host = density_on_host,
                          .vjp = [](const UserCall& call) {
                            const Tensor slope = call.outputs[0] * ((call.inputs[0] - 1) / call.inputs[1] - 1);
                            return std::vector<Tensor>{Tensor(), call.cotangents[0] * slope, Tensor()};
                          }});
  return kernel;
}

const UserKernel& incomplete_gamma() {
  static const UserKernel kernel = elementwise_kernel(
      {.name = "incomplete_gamma",
       .inputs = {"a", "x", "g"},
       .outputs = {"p", "q"},
       .text = parts_text,
       .iterations = most_terms,
       .host = parts_on_host,
       .vjp = [](const UserCall& call) {
         const Tensor density = gamma_density()(call.inputs[0], call.inputs[1], call.inputs[2]);
         return std::vector<Tensor>{Tensor(), (call.cotangents[0] - call.cotangents[1]) * density, Tensor()};
       }});
  return kernel;
}

Tensor regularised(const char* op, const Tensor& a, const Tensor& x, size_t output) {
  build::check_device(a, x, op);
  broadcast_shapes(a.shape(), x.shape(), op);
  const DType common = promote(a.dtype(), x.dtype()), t = is_float(common) ? common : DType::f32;
  const Tensor order = build::widen(cast(stop_gradient(a), t));
  return cast(incomplete_gamma().call({order, build::widen(cast(x, t)), lgamma(order + 1)})[output], t);
}

}  // namespace

Tensor igamma(TensorArg a, const Tensor& x) {
  const CallerScope scope(a.caller);
  return regularised("igamma", a.tensor, x, 0);
}
Tensor igammac(TensorArg a, const Tensor& x) {
  const CallerScope scope(a.caller);
  return regularised("igammac", a.tensor, x, 1);
}

}  // namespace heddle
