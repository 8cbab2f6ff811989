#include "heddle/core/functions/math/activations.h"

#include <fmt/format.h>

#include <vector>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/rounded_once.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {

using build::as_float;
using build::rounded_once;

namespace {

struct Halves {
  Tensor a, b;
};
Halves halves(const char* op, const Tensor& x, int axis) {
  if (x.rank() == 0) throw ShapeError(fmt::format("[{}] a scalar has no axis to halve", op));
  const int at = normalize_axis(axis, x.rank(), op);
  if (x.dim(at) % 2 != 0)
    throw ShapeError(
        fmt::format("[{}] axis {} of {} has an odd length; it is cut into two halves", op, at, x.shape().str()));
  const int64_t half = x.dim(at) / 2;
  const Tensor in = as_float(x);
  return {slice(in, at, {.start = 0, .stop = half}), slice(in, at, {.start = half})};
}

}  // namespace

Tensor logit(const Tensor& x, std::optional<double> epsilon, Caller caller) {
  const CallerScope scope(caller);
  if (epsilon && !(*epsilon >= 0 && *epsilon < 0.5))
    throw ValueError(fmt::format("[logit] epsilon is {}; it must be in [0, 0.5)", *epsilon));
  const auto odds = [&](const Tensor& in) {
    Tensor p = in;
    if (epsilon)
      p = where(p < *epsilon, *epsilon,
                where(p > 1 - *epsilon, 1 - *epsilon,
                      p));  // unlike clamp(), the bounds have the slope of the inside, as in PyTorch
    return log(p) - log1p(-p);
  };
  return rounded_once(odds, Autocast::f32, as_float(x));
}
Tensor logsigmoid(TensorArg x) {
  const CallerScope scope(x.caller);
  return -softplus(-build::as_float(x.tensor));
}
// Unlike clamp(), these let the cotangent of a NaN through, as in PyTorch.
Tensor hardtanh(const Tensor& x, double low, double high, Caller caller) {
  const CallerScope scope(caller);
  if (!(low < high)) throw ValueError(fmt::format("[hardtanh] low is {}, high {}; low must be the smaller", low, high));
  return rounded_once([&](const Tensor& in) { return where(in <= low, low, where(in >= high, high, in)); },
                      as_float(x));
}
Tensor hardsigmoid(TensorArg a) {
  const CallerScope scope(a.caller);
  const auto f = [](const Tensor& x) {
    const Tensor flat = where(x <= -3, 0, where(x >= 3, 1, stop_gradient(x)));  // a NaN stays, without a slope
    return where(x > -3 && x < 3, (x + 3) * (1.0 / 6), flat);
  };
  return rounded_once(f, as_float(a.tensor));
}
Tensor hardswish(TensorArg a) {
  const CallerScope scope(a.caller);
  const auto f = [](const Tensor& x) {
    const Tensor bent = x > -3 && x < 3,
                 inside = where(bent, x, 0);  // an infinity on the side not taken would become a NaN gradient
    return where(x <= -3, stop_gradient(x) * 0, where(bent, inside * ((inside + 3) * (1.0 / 6)), x));
  };
  return rounded_once(f, as_float(a.tensor));
}
Tensor relu6(TensorArg a) {
  const CallerScope scope(a.caller);
  const Tensor& x = a.tensor;
  return where(x <= 0, 0, where(x >= 6, 6, x));
}
Tensor leaky_relu(const Tensor& x, double slope, Caller caller) {
  const CallerScope scope(caller);
  const Tensor in = as_float(x);
  return where(in > 0, in, slope * in);
}
Tensor elu(const Tensor& x, double alpha, Caller caller) {
  const CallerScope scope(caller);
  const auto f = [&](const Tensor& in) {
    const Tensor below = in <= 0;  // false for NaN, which has the slope 1, as in PyTorch
    return where(below, alpha * expm1(where(below, in, 0)),
                 in);  // without the inner where, an infinity on the side not taken becomes a NaN gradient
  };
  return rounded_once(f, Autocast::f32, as_float(x));
}
Tensor selu(TensorArg x) {
  const CallerScope scope(x.caller);
  return rounded_once([](const Tensor& in) { return 1.0507009873554804934 * elu(in, 1.6732632423543772848); },
                      Autocast::f32, as_float(x.tensor));
}
Tensor celu(const Tensor& x, double alpha, Caller caller) {
  const CallerScope scope(caller);
  if (alpha == 0) throw ValueError("[celu] alpha must not be 0");
  const auto f = [&](const Tensor& in) {
    const Tensor below = in <= 0;
    return where(below, alpha * expm1(where(below, in, 0) * (1 / alpha)), in);
  };
  return rounded_once(f, Autocast::f32, as_float(x));
}
Tensor mish(TensorArg x) {
  const CallerScope scope(x.caller);
  return rounded_once([](const Tensor& in) { return in * tanh(softplus(in)); }, Autocast::f32, as_float(x.tensor));
}
Tensor softsign(TensorArg x) {
  const CallerScope scope(x.caller);
  return rounded_once([](const Tensor& in) { return in / (1 + abs(in)); }, as_float(x.tensor));
}

Tensor prelu(TensorArg x, const Tensor& weight) {
  const CallerScope scope(x.caller);
  const Tensor in = as_float(x.tensor);
  const int64_t channels = in.rank() > 1 ? in.dim(1) : 1;
  if (weight.rank() > 1 || (weight.numel() != 1 && weight.numel() != channels)) {
    throw ShapeError(fmt::format("[prelu] weight is {} beside x {}; it must have one element, or the {} of axis 1",
                                 weight.shape().str(), in.shape().str(), channels));
  }
  std::vector<int64_t> shape(static_cast<size_t>(in.rank()), 1);
  if (weight.numel() != 1) shape[1] = channels;
  return where(in > 0, in, reshape(weight, shape) * in);
}

Tensor tanhshrink(TensorArg x) {
  const CallerScope scope(x.caller);
  return rounded_once([](const Tensor& in) { return in - tanh(in); }, as_float(x.tensor));
}
Tensor softshrink(const Tensor& x, double lambda, Caller caller) {
  const CallerScope scope(caller);
  if (!(lambda >= 0)) throw ValueError(fmt::format("[softshrink] lambda is {}; it must not be negative", lambda));
  const auto shrunk = [&](const Tensor& in) {
    return where(in > lambda, in - lambda, where(in < -lambda, in + lambda, where(in != in, in, 0)));
  };
  return rounded_once(shrunk, as_float(x));
}
Tensor hardshrink(const Tensor& x, double lambda, Caller caller) {
  const CallerScope scope(caller);
  return rounded_once([&](const Tensor& in) { return where(in >= -lambda && in <= lambda, 0, in); }, as_float(x));
}
Tensor threshold(const Tensor& x, double threshold, double value, Caller caller) {
  const CallerScope scope(caller);
  return rounded_once([&](const Tensor& in) { return where(in <= threshold, value, in); }, x);
}

Tensor glu(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const auto [left, right] = halves("glu", x, axis);
  return rounded_once([](const Tensor& a, const Tensor& b) { return a * sigmoid(b); }, left, right);
}
Tensor geglu(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const auto [left, right] = halves("geglu", x, axis);
  return rounded_once([](const Tensor& a, const Tensor& b) { return a * gelu(b); }, left, right);
}
Tensor swiglu(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const auto [left, right] = halves("swiglu", x, axis);
  return rounded_once([](const Tensor& a, const Tensor& b) { return silu(a) * b; }, left, right);
}
Tensor reglu(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const auto [a, b] = halves("reglu", x, axis);
  return relu(a) * b;
}

}  // namespace heddle
