#include "heddle/core/functions/build.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/op/primitives.h"

namespace heddle::build {
namespace {

// Whether an integer dtype holds that whole number.
bool fits(double value, DType t) {
  switch (t) {
    case DType::i8:
      return value >= -128 && value <= 127;
    case DType::u8:
      return value >= 0 && value <= 255;
    case DType::i32:
      return value >= -2147483648.0 && value <= 2147483647.0;
    case DType::i64:
      return value >= -0x1p63 && value < 0x1p63;
    default:
      return true;
  }
}

}  // namespace

DeviceContext& device_of(DeviceContext* device) { return device ? *device : default_device(); }

Tensor record(const OpDef& op, std::initializer_list<const Tensor*> inputs, Attrs attrs, const Shape& shape,
              DType dtype) {
  std::vector<NodePtr> nodes;
  nodes.reserve(inputs.size());
  for (const Tensor* input : inputs) nodes.push_back(input->node());
  return Tensor(make_node(op, std::move(nodes), std::move(attrs), shape, dtype));
}

std::string show(const Tensor& x) { return fmt::format("{} {}", x.shape().str(), name_of(x.dtype())); }

Tensor broadcast(const Tensor& x, const Shape& shape) {
  const Shape& from = x.shape();
  if (from == shape) return x;
  if (from.rank() == shape.rank()) return record(ops::expand_op, {&x}, {}, shape, x.dtype());
  Shape padded;
  for (int i = from.rank(); i < shape.rank(); ++i) padded.push_back(1);
  for (int64_t d : from) padded.push_back(d);
  const Tensor grown = record(ops::reshape_op, {&x}, {}, padded, x.dtype());
  return padded == shape ? grown : record(ops::expand_op, {&grown}, {}, shape, x.dtype());
}

DType number_dtype(double value, DType t) {
  if (is_float(t)) return t;
  if (value != std::floor(value) || std::isinf(value)) return DType::f32;  // NaN as well
  if (t == DType::boolean) t = DType::i32;
  if (fits(value, t)) return t;
  if (fits(value, DType::i32) && t != DType::i64) return DType::i32;
  return fits(value, DType::i64) ? DType::i64 : DType::f32;
}

Tensor constant(const Shape& shape, double value, DType dtype, DeviceContext& device) {
  Attrs attrs;
  attrs.real = is_half(dtype) ? rounded(value, dtype) : value;
  return Tensor(make_node_on(device, ops::full_op, std::move(attrs), shape, dtype));
}

Tensor constant_like(const Tensor& x, double value, DType dtype) {
  return constant(x.shape(), value, dtype, x.device());
}

Tensor as_float(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::f32); }
Tensor widen(const Tensor& x) { return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? cast(x, DType::f32) : x; }

void check_same_shape(const Tensor& x, const Tensor& y, const char* op, const char* x_name, const char* y_name) {
  if (x.shape() == y.shape()) return;
  throw ShapeError(fmt::format(
      "[{}] {} is {}, {} is {}; they must be the same (a loss does not broadcast); reshape() or expand() one of them",
      op, x_name, x.shape().str(), y_name, y.shape().str()));
}

void check_index_dtype(const Tensor& indices, const char* op) {
  if (indices.dtype() == DType::i32 || indices.dtype() == DType::i64) return;
  throw DTypeError(
      fmt::format("[{}] indices must be i32 or i64, not {}; cast them first", op, name_of(indices.dtype())));
}

void check_device(const Tensor& x, const Tensor& y, const char* op) {
  if (&x.device() == &y.device()) return;
  throw ValueError(fmt::format("[{}] tensors live on different devices: {} on {}, {} on {}; move one with to()", op,
                               x.shape().str(), x.device().id(), y.shape().str(), y.device().id()));
}

DType float_dtype(DType t, Autocast policy) { return is_float(t) ? autocast_dtype(policy, t) : DType::f32; }
Tensor as_float(const Tensor& x, Autocast policy) { return cast(x, float_dtype(x.dtype(), policy)); }

}  // namespace heddle::build
