// Gamma numbers and what is made of them.
#include "core/graph/functions_samples.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/graph/build.h"

namespace heddle {
namespace {

constexpr int attempts = 6;

Tensor parameter(const char* op, const Tensor& x) {
  if (!is_float(x.dtype())) throw DTypeError(fmt::format("[{}] needs floating parameters, not {}; cast them first", op, name_of(x.dtype())));
  return cast(stop_gradient(x), DType::f32);
}

// Gamma numbers of rate 1. Below 1: those of a + 1 times u^(1 / a).
Tensor standard(const Tensor& a, Generator* generator) {
  const Tensor small = a < 1, d = where(small, a + 1, a) - 1.0 / 3, c = (1.0 / 3) * rsqrt(d);
  Tensor v, taken;
  for (int k = 0; k < attempts; ++k) {
    const Tensor x = normal(a.shape(), 0, 1, &a.device(), generator), u = maximum(uniform(a.shape(), 0, 1, &a.device(), generator), 0x1p-25);
    const Tensor t = 1 + c * x, cube = t * t * t, safe = maximum(cube, 1e-30);
    const Tensor fits = t > 0 && log(u) < 0.5 * x * x + d - d * safe + d * log(safe);
    v = k == 0 ? where(fits, cube, 1) : where(taken, v, where(fits, cube, v));
    taken = k == 0 ? fits : taken || fits;
  }
  const Tensor u = maximum(uniform(a.shape(), 0, 1, &a.device(), generator), 0x1p-25);
  const Tensor draw = d * v * where(small, pow(u, 1 / where(a > 0, a, 1)), 1);
  return where(a > 0, draw, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

Tensor gamma(const Tensor& concentration, double rate, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (!(rate > 0) || std::isinf(rate)) throw ValueError(fmt::format("[gamma] the rate is {}; it must be finite and positive", rate));
  const Tensor draw = standard(parameter("gamma", concentration), generator);
  return rate == 1 ? draw : draw * (1 / rate);
}

Tensor beta(const Tensor& a, const Tensor& b, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(a, b, "beta");
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "beta");
  const Tensor x = standard(build::broadcast(parameter("beta", a), shape), generator), y = standard(build::broadcast(parameter("beta", b), shape), generator);
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
  return normal(n.shape(), 0, 1, &n.device(), generator) * rsqrt(2 * standard(0.5 * n, generator) / n);
}

}  // namespace heddle
