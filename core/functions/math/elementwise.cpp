// The rows of elementwise.inc with all that whole numbers do otherwise, where, clamp and the operators: a power of
// whole numbers is a product of them, so that one cannot stand below the other.
#include "heddle/core/functions/math/elementwise.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/rounded_once.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// ---- whole numbers: what a row of elementwise.inc cannot say, because it is one expression for all types

bool is_bool(const Tensor& x) { return x.dtype() == DType::boolean; }

// x^n for n >= 0, by squaring.
Tensor whole_power(const Tensor& x, int64_t n) {
  if (n == 0) return build::constant_like(x, 1, x.dtype());
  Tensor square = x, result;
  for (; n != 0; n /= 2) {
    if (n % 2 != 0) result = result.defined() ? result * square : square;
    if (n > 1) square = square * square;
  }
  return result;
}

// x^y by squaring over seven bits of y. A larger y is replaced by 64 or 65, of its parity: that is right for 0, 1, -1
// and even x, whose powers are 0 by then, and others are far beyond overflow. Below 0 the quotient 1 / x^|y| is whole
// for 1 and -1 alone, and counts as 0 for others.
Tensor whole_power(const Tensor& x, const Tensor& y) {
  const Tensor odd = bitwise_and(y, 1);
  const Tensor n = where(y > 65, odd + 64, where(y < 0, odd, y));
  Tensor square = x, result = build::constant_like(x, 1, x.dtype());
  for (int bit = 0; bit < 7; ++bit) {
    result = where(bitwise_and(n, static_cast<double>(1 << bit)) != 0, result * square, result);
    if (bit < 6) square = square * square;
  }
  return where((y < 0) && (x != 1) && (x != -1), 0, result);
}

// What `op` is of values that are no floats; nothing where the row itself says it. DTypeError for a difference or
// negation of bool, ValueError for x to a negative number.
std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x) {
  const bool rounds = &op == &ops::floor_op || &op == &ops::ceil_op || &op == &ops::round_op || &op == &ops::trunc_op;
  if (rounds) return x;
  if (!is_bool(x)) return {};
  if (&op == &ops::neg_op)
    throw DTypeError("[neg] bool has no negative; did you mean logical_not()? Else cast() it to an integer dtype");
  if (&op == &ops::bitwise_not_op) return logical_not(x);
  return &op == &ops::abs_op ? std::optional(x) : std::nullopt;
}

std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x, const Tensor& y) {
  if (&op == &ops::pow_op) {
    broadcast_shapes(x.shape(), y.shape(), "pow");
    const DType t = promote(x.dtype(), y.dtype()) == DType::boolean ? DType::i32 : promote(x.dtype(), y.dtype());
    return whole_power(cast(x, t), cast(y, t));
  }
  if (!is_bool(x) || !is_bool(y)) return {};
  if (&op == &ops::sub_op)
    throw DTypeError("[sub] bool has no difference; did you mean logical_xor()? Else cast() to an integer dtype");
  if (&op == &ops::add_op || &op == &ops::maximum_op || &op == &ops::bitwise_or_op) return logical_or(x, y);
  if (&op == &ops::mul_op || &op == &ops::minimum_op || &op == &ops::bitwise_and_op) return logical_and(x, y);
  if (&op == &ops::bitwise_xor_op) return ne(x, y);
  return {};
}

std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x, double y) {
  if (&op != &ops::pow_op || y != std::floor(y) || std::abs(y) > 1e6) return {};
  if (y < 0) throw ValueError(fmt::format("[pow] integers have no integer power {}; cast() x to a floating dtype", y));
  return whole_power(is_bool(x) ? cast(x, DType::i32) : x, static_cast<int64_t>(y));
}

// ---- rows of tensors and numbers

// The dtype an elementwise row computes in for (promoted) inputs of dtype t, and the dtype it gives.
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

// A constant that is an operand of an elementwise row and nothing else: in f16 and bf16 it has the digits of f32, which
// kernels compute in.
Tensor number_like(const Tensor& x, double value, DType dtype) {
  if (!is_half(dtype)) return build::constant_like(x, value, dtype);
  Attrs attrs;
  attrs.real = static_cast<float>(value);
  return Tensor(make_node_on(x.device(), ops::full_op, std::move(attrs), x.shape(), dtype));
}

// A number beside a tensor, as PyTorch takes it: rows that compare, choose or divide with a rest round it to the
// tensor's dtype first.
Tensor operand_number(const OpDef& op, const Tensor& beside, double value) {
  const DType dtype = build::number_dtype(value, autocast_dtype(op, beside.dtype()));
  const bool rounds = op.rule == DTypeRule::compare || &op == &ops::mod_op || &op == &ops::minimum_op ||
                      &op == &ops::maximum_op || &op == &ops::copysign_op;
  return rounds ? build::constant_like(beside, value, dtype) : number_like(beside, value, dtype);
}

Tensor unary(const OpDef& op, const Tensor& x) {
  if (!is_float(x.dtype())) {
    if (const auto other = of_whole_numbers(op, x)) return *other;
  }
  const DType t = input_dtype(op, x.dtype());
  const Tensor& in = t == x.dtype() ? x : cast(x, t);
  return build::record(op, {&in}, {}, in.shape(), output_dtype(op, t));
}

Tensor binary(const OpDef& op, const Tensor& x, const Tensor& y) {
  const DType common = x.dtype() == y.dtype() ? x.dtype() : promote(x.dtype(), y.dtype());
  if (!is_float(common)) {
    if (const auto other = of_whole_numbers(op, x, y)) return *other;
  }
  const DType t = input_dtype(op, common);
  if (x.dtype() == t && y.dtype() == t && x.shape() == y.shape())
    return build::record(op, {&x, &y}, {}, x.shape(), output_dtype(op, t));
  build::check_device(x, y, op.name.data());
  const Shape shape = broadcast_shapes(x.shape(), y.shape(), op.name.data());
  const Tensor a = build::broadcast(cast(x, t), shape);
  const Tensor b = build::broadcast(cast(y, t), shape);
  return build::record(op, {&a, &b}, {}, shape, output_dtype(op, t));
}

Tensor binary(const OpDef& op, const Tensor& x, double y) {
  if (!is_float(x.dtype())) {
    if (const auto other = of_whole_numbers(op, x, y)) return *other;
  }
  return binary(op, x, operand_number(op, x, y));
}

Tensor binary(const OpDef& op, double x, const Tensor& y) { return binary(op, operand_number(op, y, x), y); }

}  // namespace

#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(TensorArg x) {                                         \
    const CallerScope scope(x.caller);                               \
    return unary(ops::name##_op, x.tensor);                          \
  }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(TensorArg x, const Tensor& y) {                         \
    const CallerScope scope(x.caller);                                \
    return binary(ops::name##_op, x.tensor, y);                       \
  }                                                                   \
  Tensor name(TensorArg x, double y) {                                \
    const CallerScope scope(x.caller);                                \
    return binary(ops::name##_op, x.tensor, y);                       \
  }                                                                   \
  Tensor name(double x, TensorArg y) {                                \
    const CallerScope scope(y.caller);                                \
    return binary(ops::name##_op, x, y.tensor);                       \
  }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

Tensor stop_gradient(TensorArg argument) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  return build::record(ops::stop_gradient_op, {&x}, {}, x.shape(), x.dtype());
}

Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(condition, x, "where");
  build::check_device(x, y, "where");
  const DType t = promote(x.dtype(), y.dtype());
  const Shape branches = broadcast_shapes(x.shape(), y.shape(), "where");
  const Shape shape = broadcast_shapes(condition.shape(), branches, "where");
  const Tensor c = build::broadcast(cast(condition, DType::boolean), shape);
  const Tensor a = build::broadcast(cast(x, t), shape);
  const Tensor b = build::broadcast(cast(y, t), shape);
  return build::record(ops::where_op, {&c, &a, &b}, {}, shape, t);
}

Tensor where(const Tensor& condition, const Tensor& x, double y, Caller caller) {
  const CallerScope scope(caller);
  return where(condition, x, build::constant_like(x, y, build::number_dtype(y, x.dtype())));
}

Tensor where(const Tensor& condition, double x, const Tensor& y, Caller caller) {
  const CallerScope scope(caller);
  return where(condition, build::constant_like(y, x, build::number_dtype(x, y.dtype())), y);
}

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high, Caller caller) {
  const CallerScope scope(caller);
  if (!low && !high) throw ValueError("[clamp] needs a lower bound, an upper bound or both; got neither");
  if ((low && std::isnan(*low)) || (high && std::isnan(*high))) throw ValueError("[clamp] a bound is NaN");
  // Of f16 and bf16 in f32: beside a bound that their dtype rounds, an element lies on one of its sides and has that
  // side's slope.
  const auto clamped = [&](const Tensor& in) {
    const Tensor raised = low ? maximum(in, *low) : in;
    return high ? minimum(raised, *high) : raised;
  };
  return build::rounded_once(clamped, x);
}

Tensor operator-(TensorArg x) { return neg(x); }
Tensor operator!(TensorArg x) { return logical_not(x); }

#define HEDDLE_OPERATOR(symbol, name)                                            \
  Tensor operator symbol(TensorArg x, TensorArg y) { return name(x, y.tensor); } \
  Tensor operator symbol(TensorArg x, double y) { return name(x, y); }           \
  Tensor operator symbol(double x, TensorArg y) { return name(x, y); }
HEDDLE_OPERATOR(+, add)
HEDDLE_OPERATOR(-, sub)
HEDDLE_OPERATOR(*, mul)
HEDDLE_OPERATOR(/, div)
HEDDLE_OPERATOR(==, eq)
HEDDLE_OPERATOR(!=, ne)
HEDDLE_OPERATOR(<, lt)
HEDDLE_OPERATOR(<=, le)
HEDDLE_OPERATOR(>, gt)
HEDDLE_OPERATOR(>=, ge)
HEDDLE_OPERATOR(&&, logical_and)
HEDDLE_OPERATOR(||, logical_or)
#undef HEDDLE_OPERATOR

namespace {

Tensor& replace(const TensorTarget& x, const char* symbol, const Tensor& value) {
  if (x.tensor.impl()->requires_grad) {
    throw GradError(
        fmt::format("[{0}] a leaf {1} that requires a gradient would be lost: {0} gives the handle another value; "
                    "x.assign(...) within a NoGradScope updates it",
                    symbol, x.tensor.shape().str()));
  }
  return x.tensor = value;
}

}  // namespace

#define HEDDLE_OPERATOR(symbol, name)                        \
  Tensor& operator symbol(TensorTarget x, const Tensor& y) { \
    const CallerScope scope(x.caller);                       \
    return replace(x, #symbol, name(x.tensor, y));           \
  }                                                          \
  Tensor& operator symbol(TensorTarget x, double y) {        \
    const CallerScope scope(x.caller);                       \
    return replace(x, #symbol, name(x.tensor, y));           \
  }
HEDDLE_OPERATOR(+=, add)
HEDDLE_OPERATOR(-=, sub)
HEDDLE_OPERATOR(*=, mul)
HEDDLE_OPERATOR(/=, div)
#undef HEDDLE_OPERATOR

}  // namespace heddle
