#include "heddle/core/functions/math/complex.h"

#include <fmt/format.h>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {

namespace build {

void check_pairs(const char* op, const Tensor& z, int least) {
  if (z.rank() < least + 1 || z.dim(-1) != 2) {
    throw ShapeError(
        fmt::format("[{}] a complex tensor ends in an axis of 2 (real, imaginary){}; got {}; complex_pair() makes one",
                    op, least > 0 ? " behind those of the transform" : "", z.shape().str()));
  }
}

Tensor times_i(const Tensor& z) {
  const Tensor sign = 2 * positions(z.shape(), z.rank() - 1, z.device()) - 1;
  return flip(z, {z.rank() - 1}) * cast(sign, z.dtype());
}

}  // namespace build

namespace {

using build::check_pairs;

Tensor part(const char* op, const Tensor& z, int k) {
  check_pairs(op, z, 0);
  return squeeze(slice(z, -1, {.start = k, .stop = k + 1}), -1);
}

}  // namespace

Tensor complex_pair(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  build::check_device(a.tensor, b, "complex_pair");
  const Shape shape = broadcast_shapes(a.tensor.shape(), b.shape(), "complex_pair");
  build::check_dims("complex_pair", shape.rank() + 1);
  const DType common = promote(a.tensor.dtype(), b.dtype()), t = is_float(common) ? common : DType::f32;
  return concat(
      {unsqueeze(build::broadcast(cast(a.tensor, t), shape), -1), unsqueeze(build::broadcast(cast(b, t), shape), -1)},
      -1);
}
Tensor real_part(TensorArg z) {
  const CallerScope scope(z.caller);
  return part("real_part", z.tensor, 0);
}
Tensor imaginary_part(TensorArg z) {
  const CallerScope scope(z.caller);
  return part("imaginary_part", z.tensor, 1);
}
Tensor complex_conj(TensorArg z) {
  const CallerScope scope(z.caller);
  check_pairs("complex_conj", z.tensor, 0);
  return where(build::positions(z.tensor.shape(), z.tensor.rank() - 1, z.tensor.device()) == 1, -z.tensor, z.tensor);
}
Tensor complex_mul(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  check_pairs("complex_mul", a.tensor, 0);
  check_pairs("complex_mul", b, 0);
  build::check_device(a.tensor, b, "complex_mul");
  broadcast_shapes(a.tensor.shape(), b.shape(), "complex_mul");
  const Tensor x = part("complex_mul", b, 0), y = part("complex_mul", b, 1);
  return a.tensor * unsqueeze(x, -1) + build::times_i(build::as_float(a.tensor)) * unsqueeze(y, -1);
}
Tensor complex_abs(TensorArg z) {
  const CallerScope scope(z.caller);
  const Tensor x = abs(part("complex_abs", build::as_float(z.tensor), 0)),
               y = abs(part("complex_abs", build::as_float(z.tensor), 1));
  const Tensor high = maximum(x, y), none = high == 0, safe = stop_gradient(where(none || isinf(high), 1, high));
  const Tensor a = where(none, 1, x / safe), b = y / safe;  // the square root of 0 has no slope
  return where(none, 0, safe * sqrt(a * a + b * b));
}
Tensor complex_angle(TensorArg z) {
  const CallerScope scope(z.caller);
  return atan2(part("complex_angle", z.tensor, 1), part("complex_angle", z.tensor, 0));
}
Tensor polar(TensorArg size, const Tensor& angle) {
  const CallerScope scope(size.caller);
  build::check_device(size.tensor, angle, "polar");
  broadcast_shapes(size.tensor.shape(), angle.shape(), "polar");
  return complex_pair(size.tensor * cos(angle), size.tensor * sin(angle));
}

}  // namespace heddle
