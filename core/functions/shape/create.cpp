#include "heddle/core/functions/shape/create.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

Tensor iota(const Shape& shape, int axis, double start, double step, DType dtype, DeviceContext& device) {
  return Tensor(make_node_on(device, ops::iota_op, RangeAttrs(axis, start, step).packed(), shape, dtype));
}

void check_arange(double start, double stop, double step, DType dtype) {
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step) || step == 0) {
    throw ValueError(
        fmt::format("[arange] start {}, stop {} and step {} must be finite and the step not 0", start, stop, step));
  }
  if (dtype == DType::boolean) throw DTypeError("[arange] bool holds no range; use an integer dtype");
  if (!is_float(dtype) && (start != std::trunc(start) || step != std::trunc(step))) {
    throw ValueError(
        fmt::format("[arange] start {} and step {} must be whole numbers for {}", start, step, name_of(dtype)));
  }
}

}  // namespace

Tensor full(const Shape& shape, double value, DType dtype, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  return build::constant(shape, value, dtype, build::device_of(device));
}

Tensor zeros(const Shape& shape, DType dtype, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  return full(shape, 0, dtype, device);
}
Tensor ones(const Shape& shape, DType dtype, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  return full(shape, 1, dtype, device);
}
Tensor full_like(const Tensor& x, double value, Caller caller) {
  const CallerScope scope(caller);
  return full(x.shape(), value, x.dtype(), &x.device());
}
Tensor zeros_like(TensorArg x) {
  const CallerScope scope(x.caller);
  return full_like(x.tensor, 0);
}
Tensor ones_like(TensorArg x) {
  const CallerScope scope(x.caller);
  return full_like(x.tensor, 1);
}

// NumPy's rule: ceil((stop - start) / step) elements.
Tensor arange(double start, double stop, double step, DType dtype, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  check_arange(start, stop, step, dtype);
  const double count = std::ceil((stop - start) / step);
  if (count >= 0x1p62)
    throw ValueError(fmt::format("[arange] {} elements from {} to {} by {} are too many", count, start, stop, step));
  return iota(Shape{count > 0 ? static_cast<int64_t>(count) : 0}, 0, start, step, dtype, build::device_of(device));
}

// The second half counts down from `stop`, so that both ends are exact.
Tensor linspace(double start, double stop, int64_t count, DType dtype, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  if (count < 0) throw ValueError(fmt::format("[linspace] the count is {}; it must not be negative", count));
  if (!std::isfinite(start) || !std::isfinite(stop))
    throw ValueError(fmt::format("[linspace] the ends {} and {} must be finite", start, stop));
  if (!is_float(dtype))
    throw DTypeError(
        fmt::format("[linspace] needs a floating dtype, not {}; use arange() for integers", name_of(dtype)));
  DeviceContext& target = build::device_of(device);
  const Shape shape{count};
  if (count <= 1) return full(shape, start, dtype, &target);
  // Half precision cannot count far: positions are made in f32.
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const double step = (stop - start) / static_cast<double>(count - 1);
  const Tensor up = iota(shape, 0, 0, 1, wide, target);
  const Tensor down = iota(shape, 0, static_cast<double>(count - 1), -1, wide, target);
  return cast(where(up < down, up * step + start, stop - down * step), dtype);
}

Tensor eye(int64_t rows, int64_t columns, DType dtype, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  if (columns == -1) columns = rows;
  if (rows < 0 || columns < 0)
    throw ValueError(fmt::format("[eye] the shape ({}, {}) has a negative dimension", rows, columns));
  DeviceContext& target = build::device_of(device);
  const Shape shape{rows, columns};
  return cast(eq(iota(shape, 0, 0, 1, DType::i32, target), iota(shape, 1, 0, 1, DType::i32, target)), dtype);
}

}  // namespace heddle
