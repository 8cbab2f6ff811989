#include "heddle/core/functions/nn/norms.h"

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/composite.h"

namespace heddle {
namespace {

// The parameter over x's axes: its own shape from axis `first` on, ones elsewhere.
Tensor along(const Tensor& parameter, const Tensor& x, int first) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d)
    shape.push_back(d >= first && d < first + parameter.rank() ? parameter.dim(d - first) : 1);
  return reshape(build::widen(parameter), shape);
}

Tensor scaled(Tensor y, const Tensor& weight, const Tensor& bias, int first) {
  if (weight.defined()) y = y * along(weight, y, first);
  if (bias.defined()) y = y + along(bias, y, first);
  return y;
}

void check_parameter(const Tensor& parameter, const Shape& shape, const Tensor& x, const char* op, const char* name) {
  if (!parameter.defined()) return;
  build::check_device(x, parameter, op);
  if (parameter.shape() == shape) return;
  throw ShapeError(fmt::format("[{}] {} is {}, expected {} for an input of {}", op, name, parameter.shape().str(),
                               shape.str(), x.shape().str()));
}

void check_eps(double eps, const char* op) {
  if (!(eps >= 0)) throw ValueError(fmt::format("[{}] eps is {}; it must not be negative", op, eps));
}

// (x - mean) / sqrt(var + eps) over `axes` of a wide x.
Tensor normalized(const Tensor& x, const std::vector<int>& axes, double eps) {
  const Tensor centred = x - mean(x, axes, true);
  return centred * rsqrt(mean(centred * centred, axes, true) + eps);
}

int64_t channels_of(const Tensor& x, const char* op) {
  if (x.rank() < 2) throw ShapeError(fmt::format("[{}] the input is {}; expected (N, C, ...)", op, x.shape().str()));
  return x.dim(1);
}

Tensor grouped(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps, const char* op) {
  const int64_t channels = channels_of(x, op);
  if (groups < 1 || channels % groups != 0)
    throw ValueError(fmt::format("[{}] {} channels are not a multiple of {} groups", op, channels, groups));
  check_parameter(weight, Shape{channels}, x, op, "weight");
  check_parameter(bias, Shape{channels}, x, op, "bias");
  check_eps(eps, op);
  const Tensor in = build::as_float(x, Autocast::f32), wide = build::widen(in);
  if (x.numel() == 0) return cast(scaled(wide, weight, bias, 1), in.dtype());
  const Tensor rows = reshape(wide, Shape{x.dim(0), groups, x.numel() / (x.dim(0) * groups)});
  const Tensor result = cast(scaled(reshape(normalized(rows, {2}, eps), x.shape()), weight, bias, 1), in.dtype());
  note_composite("group_norm", result, {&in, &weight, &bias}, {groups}, eps);
  return result;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias, double eps,
                  Caller caller) {
  const CallerScope scope(caller);
  const int first = x.rank() - shape.rank();
  bool fits = shape.rank() > 0 && first >= 0;
  for (int d = 0; fits && d < shape.rank(); ++d) fits = x.dim(first + d) == shape[d];
  if (!fits)
    throw ShapeError(
        fmt::format("[layer_norm] the input {} does not end in the normalised shape {}", x.shape().str(), shape.str()));
  check_parameter(weight, shape, x, "layer_norm", "weight");
  check_parameter(bias, shape, x, "layer_norm", "bias");
  check_eps(eps, "layer_norm");
  const Tensor in = build::as_float(x, Autocast::f32);
  std::vector<int> axes;
  for (int d = first; d < x.rank(); ++d) axes.push_back(d);
  const Tensor result = cast(scaled(normalized(build::widen(in), axes, eps), weight, bias, first), in.dtype());
  note_composite("layer_norm", result, {&in, &weight, &bias}, {first}, eps);
  return result;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() == 0) throw ShapeError("[rms_norm] a scalar has no axis; reshape it to (1)");
  check_parameter(weight, Shape{x.dim(-1)}, x, "rms_norm", "weight");
  check_eps(eps, "rms_norm");
  const Tensor in = build::as_float(x, Autocast::f32), wide = build::widen(in);
  const Tensor y = wide * rsqrt(mean(wide * wide, {-1}, true) + eps);
  return cast(scaled(y, weight, {}, x.rank() - 1), in.dtype());
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps,
                  Caller caller) {
  const CallerScope scope(caller);
  return grouped(x, groups, weight, bias, eps, "group_norm");
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Caller caller) {
  const CallerScope scope(caller);
  return grouped(x, std::max<int64_t>(1, channels_of(x, "instance_norm")), weight, bias, eps, "instance_norm");
}

Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight, const Tensor& bias,
                  bool training, double momentum, double eps, Caller caller) {
  const CallerScope scope(caller);
  const Shape channels{channels_of(x, "batch_norm")};
  for (const auto& [parameter, name] : {std::pair{&weight, "weight"}, {&bias, "bias"}})
    check_parameter(*parameter, channels, x, "batch_norm", name);
  check_parameter(running_mean, channels, x, "batch_norm", "running_mean");
  check_parameter(running_var, channels, x, "batch_norm", "running_var");
  check_eps(eps, "batch_norm");
  const Tensor in = build::as_float(x, Autocast::f32), wide = build::widen(in);
  if (!training) {
    if (!running_mean.defined() || !running_var.defined())
      throw ValueError("[batch_norm] without training it needs running_mean and running_var");
    const Tensor y = (wide - along(running_mean, x, 1)) * rsqrt(along(running_var, x, 1) + eps);
    const Tensor result = cast(scaled(y, weight, bias, 1), in.dtype());
    note_composite("batch_norm", result, {&in, &weight, &bias, &running_mean, &running_var}, {}, eps);
    return result;
  }
  const int64_t count = channels[0] == 0 ? 0 : x.numel() / channels[0];
  if (count < 2)
    throw ShapeError(
        fmt::format("[batch_norm] {} has {} values a channel; training needs more than 1", x.shape().str(), count));
  std::vector<int> axes{0};
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  const Tensor middle = mean(wide, axes, true);
  const Tensor centred = wide - middle;
  const Tensor spread = mean(centred * centred, axes, true);
  const auto follow = [&](Tensor& running, const Tensor& now, double factor) {
    if (!running.defined()) return;
    const NoGradScope no_grad;
    running.assign(running * (1 - momentum) + cast(reshape(now, channels), running.dtype()) * (momentum * factor));
  };
  follow(running_mean, middle, 1);
  follow(running_var, spread, static_cast<double>(count) / static_cast<double>(count - 1));
  return cast(scaled(centred * rsqrt(spread + eps), weight, bias, 1), in.dtype());
}

}  // namespace heddle
