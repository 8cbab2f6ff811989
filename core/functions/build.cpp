#include "heddle/core/functions/build.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/math/whole_numbers.h"
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

DType input_dtype(const OpDef& op, DType t) {
  switch (op.rule) {
    case DTypeRule::floating:
    case DTypeRule::test:
      return is_float(t) ? autocast_dtype(op, t) : DType::f32;
    case DTypeRule::whole:
      if (is_float(t))
        throw DTypeError(fmt::format("[{}] takes whole numbers, not {}; cast() them first", op.name, name_of(t)));
      [[fallthrough]];
    case DTypeRule::numeric:
    case DTypeRule::compare:
      return t == DType::boolean ? DType::i32 : autocast_dtype(op, t);
    case DTypeRule::logical:
      return DType::boolean;
    case DTypeRule::any:
      return t;
  }
  return t;
}

DType output_dtype(const OpDef& op, DType input) {
  return op.rule == DTypeRule::floating || op.rule == DTypeRule::numeric || op.rule == DTypeRule::whole ||
                 op.rule == DTypeRule::any
             ? input
             : DType::boolean;
}

Tensor unary(const OpDef& op, const Tensor& x) {
  if (!is_float(x.dtype())) {
    if (const auto other = of_whole_numbers(op, x)) return *other;
  }
  const DType t = input_dtype(op, x.dtype());
  const Tensor& in = t == x.dtype() ? x : cast(x, t);
  return record(op, {&in}, {}, in.shape(), output_dtype(op, t));
}

Tensor binary(const OpDef& op, const Tensor& x, const Tensor& y) {
  const DType common = x.dtype() == y.dtype() ? x.dtype() : promote(x.dtype(), y.dtype());
  if (!is_float(common)) {
    if (const auto other = of_whole_numbers(op, x, y)) return *other;
  }
  const DType t = input_dtype(op, common);
  if (x.dtype() == t && y.dtype() == t && x.shape() == y.shape())
    return record(op, {&x, &y}, {}, x.shape(), output_dtype(op, t));
  check_device(x, y, op.name.data());
  const Shape shape = broadcast_shapes(x.shape(), y.shape(), op.name.data());
  const Tensor a = broadcast(cast(x, t), shape);
  const Tensor b = broadcast(cast(y, t), shape);
  return record(op, {&a, &b}, {}, shape, output_dtype(op, t));
}

DType number_dtype(double value, DType t) {
  if (is_float(t)) return t;
  if (value != std::floor(value) || std::isinf(value)) return DType::f32;  // NaN as well
  if (t == DType::boolean) t = DType::i32;
  if (fits(value, t)) return t;
  if (fits(value, DType::i32) && t != DType::i64) return DType::i32;
  return fits(value, DType::i64) ? DType::i64 : DType::f32;
}

Tensor constant_like(const Tensor& x, double value, DType dtype) { return full(x.shape(), value, dtype, &x.device()); }

namespace {

// A constant that is an operand of an elementwise row and nothing else: in f16 and bf16 it has the digits of f32, which
// kernels compute in.
Tensor number_like(const Tensor& x, double value, DType dtype) {
  if (!is_half(dtype)) return constant_like(x, value, dtype);
  Attrs attrs;
  attrs.real = static_cast<float>(value);
  return Tensor(make_node_on(x.device(), ops::full_op, std::move(attrs), x.shape(), dtype));
}

// A number beside a tensor, as PyTorch takes it: rows that compare, choose or divide with a rest round it to the
// tensor's dtype first.
Tensor operand_number(const OpDef& op, const Tensor& beside, double value) {
  const DType dtype = number_dtype(value, autocast_dtype(op, beside.dtype()));
  const bool rounds = op.rule == DTypeRule::compare || &op == &ops::mod_op || &op == &ops::minimum_op ||
                      &op == &ops::maximum_op || &op == &ops::copysign_op;
  return rounds ? constant_like(beside, value, dtype) : number_like(beside, value, dtype);
}

}  // namespace

Tensor binary(const OpDef& op, const Tensor& x, double y) {
  if (!is_float(x.dtype())) {
    if (const auto other = of_whole_numbers(op, x, y)) return *other;
  }
  return binary(op, x, operand_number(op, x, y));
}

Tensor binary(const OpDef& op, double x, const Tensor& y) { return binary(op, operand_number(op, y, x), y); }

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

const Tensor& part_of_sum(const Tensor& product) {
  if (!is_half(product.dtype())) return product;
  Node* node = product.node().get();
  while (node->op->kind == OpKind::movement && node->inputs.size() == 1 && !node->has_value())
    node = node->inputs[0].get();
  if ((node->op == &ops::matmul_op || node->op == &ops::conv_op) && !node->has_value()) node->attrs.real2 = 1;
  return product;
}

Tensor add_bias(const Tensor& given, const Tensor& bias) {
  const Tensor& product = part_of_sum(given);
  const Tensor total = product + bias;
  return cast(total, autocast_dtype(Autocast::low, total.dtype()));
}

Tensor plain_matmul(const Tensor& a, const Tensor& b) {
  const AutocastScope scope = AutocastScope::off();
  return matmul(a, b);
}

}  // namespace heddle::build
