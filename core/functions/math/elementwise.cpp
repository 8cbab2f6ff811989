// Elementwise functions: the rows of elementwise.inc, cast, where, clamp and the operators.
#include <fmt/format.h>

#include <cmath>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/rounded_once.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(TensorArg x) {                                         \
    const CallerScope scope(x.caller);                               \
    return build::unary(ops::name##_op, x.tensor);                   \
  }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(TensorArg x, const Tensor& y) {                         \
    const CallerScope scope(x.caller);                                \
    return build::binary(ops::name##_op, x.tensor, y);                \
  }                                                                   \
  Tensor name(TensorArg x, double y) {                                \
    const CallerScope scope(x.caller);                                \
    return build::binary(ops::name##_op, x.tensor, y);                \
  }                                                                   \
  Tensor name(double x, TensorArg y) {                                \
    const CallerScope scope(y.caller);                                \
    return build::binary(ops::name##_op, x, y.tensor);                \
  }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

Tensor cast(const Tensor& x, DType dtype, Caller caller) {
  const CallerScope scope(caller);
  if (x.dtype() == dtype) return x;
  return build::record(ops::cast_op, {&x}, {}, x.shape(), dtype);
}

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
