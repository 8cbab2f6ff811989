// Gamma numbers and what is made of them, Poisson numbers. A statement draws once: in which order the parts of an
// expression draw is the compiler's choice.
#include "heddle/core/functions/random/samples.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/user/user_kernel.h"

namespace heddle {
namespace {

constexpr int attempts = 6;

Tensor parameter(const char* op, const Tensor& x) {
  if (!is_float(x.dtype()))
    throw DTypeError(fmt::format("[{}] needs floating parameters, not {}; cast them first", op, name_of(x.dtype())));
  return cast(stop_gradient(x), DType::f32);
}

// Gamma numbers of rate 1. Below 1: those of a + 1 times u^(1 / a).
Tensor standard(const Tensor& a, Generator* generator) {
  const Tensor small = a < 1, d = where(small, a + 1, a) - 1.0 / 3, c = (1.0 / 3) * rsqrt(d);
  Tensor v, taken;
  for (int k = 0; k < attempts; ++k) {
    const Tensor x = normal(a.shape(), 0, 1, &a.device(), generator),
                 u = maximum(uniform(a.shape(), 0, 1, &a.device(), generator), 0x1p-25);
    const Tensor t = 1 + c * x, cube = t * t * t, safe = maximum(cube, 1e-30);
    const Tensor fits = t > 0 && log(u) < 0.5 * x * x + d - d * safe + d * log(safe);
    v = k == 0 ? where(fits, cube, 1) : where(taken, v, where(fits, cube, v));
    taken = k == 0 ? fits : taken || fits;
  }
  const Tensor u = maximum(uniform(a.shape(), 0, 1, &a.device(), generator), 0x1p-25);
  const Tensor draw = d * v * where(small, pow(u, 1 / where(a > 0, a, 1)), 1);
  return where(a > 0, draw, std::numeric_limits<double>::quiet_NaN());
}

Tensor uniform_like(const Tensor& x, Generator* generator) { return uniform(x.shape(), 0, 1, &x.device(), generator); }

// How many values of the distribution function lie at or below u; rate < 10, so that fewer than 2^-24 of the draws lie
// above 40.
Tensor poisson_by_inversion(const Tensor& rate, Generator* generator) {
  static const UserKernel kernel =
      elementwise_kernel({.name = "poisson_by_inversion",
                          .inputs = {"rate", "u"},
                          .outputs = {"k"},
                          .text = R"(
        T probability = exp(-rate), below = probability;
        for (int i = 0; i < 40; ++i) {
          if (u < below) { break; }
          k = k + 1.0;
          probability = probability * (rate / k);
          below = below + probability;
        })",
                          .iterations = 40,
                          .host = [](std::span<const double> in, std::span<double> out) {
                            double probability = std::exp(-in[0]), below = probability;
                            for (out[0] = 0; out[0] < 40 && in[1] >= below; below += probability)
                              probability *= in[0] / ++out[0];
                          }});
  return kernel(rate, uniform_like(rate, generator));
}

// rate >= 10
Tensor poisson_by_rejection(const Tensor& rate, Generator* generator) {
  constexpr int tries = 8;
  const Tensor log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b,
               inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), limit = 0.9277 - 3.6224 / (b - 2);
  const ScanBody attempt = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>&) {
    const Tensor u = uniform_like(rate, generator) - 0.5, v = maximum(uniform_like(rate, generator), 0x1p-25),
                 us = maximum(0.5 - abs(u), 0x1p-25);
    const Tensor k = floor((2 * a / us + b) * u + rate + 0.43), inside = k >= 0 && (us >= 0.013 || v <= us);
    const Tensor near = us >= 0.07 && v <= limit;
    const Tensor below =
        log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_rate - rate - lgamma(maximum(k, 0) + 1);
    const Tensor fits = k >= 0 && (near || (inside && below));
    return Scanned{{where(carry[1] || !fits, carry[0], k), carry[1] || fits}, {}};
  };
  return scan(attempt, {floor(rate), zeros(rate.shape(), DType::boolean, &rate.device())}, {}, {.length = tries})
      .carry[0];
}

}  // namespace

Tensor gamma(const Tensor& concentration, double rate, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (!(rate > 0) || std::isinf(rate))
    throw ValueError(fmt::format("[gamma] the rate is {}; it must be finite and positive", rate));
  const Tensor draw = standard(parameter("gamma", concentration), generator);
  return rate == 1 ? draw : draw * (1 / rate);
}

Tensor beta(const Tensor& a, const Tensor& b, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(a, b, "beta");
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "beta");
  const Tensor x = standard(build::broadcast(parameter("beta", a), shape), generator),
               y = standard(build::broadcast(parameter("beta", b), shape), generator);
  return x / (x + y);
}

Tensor dirichlet(const Tensor& concentration, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  const Tensor a = parameter("dirichlet", concentration);
  if (a.rank() == 0) throw ShapeError("[dirichlet] a scalar has no axis of parts; expected (..., parts)");
  const Tensor x = standard(a, generator);
  return x / sum(x, {-1}, true);
}

Tensor chi_squared(const Tensor& freedom, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  return 2 * standard(0.5 * parameter("chi_squared", freedom), generator);
}

Tensor student_t(const Tensor& freedom, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  const Tensor n = parameter("student_t", freedom);
  const Tensor x = normal(n.shape(), 0, 1, &n.device(), generator);
  return x * rsqrt(2 * standard(0.5 * n, generator) / n);
}

Tensor poisson(const Tensor& rate, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  const Tensor r = parameter("poisson", rate), possible = r >= 0 && !isinf(r), small = r < 10;
  const Tensor few = poisson_by_inversion(where(possible && small, r, 0), generator),
               many = poisson_by_rejection(where(possible && !small, r, 10), generator);
  return where(possible, where(small, few, many), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace heddle
