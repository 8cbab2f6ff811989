// Elementwise functions: the rows of core/op/elementwise.inc, where, clamp and the operators.
//
// Purpose: shapes broadcast as in NumPy; dtypes promote by promote() (core/base/dtype.h). A number takes the tensor's
// dtype, except that a fractional one beside an integer tensor gives f32. Integers and bool go their own way, as in
// NumPy: on bool, + and maximum are "or", * and minimum are "and", bitwise functions are logical ones, abs changes
// nothing, and there is no difference and no negation; integers are already rounded, and have powers that are integers.
// Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// From the table: Tensor exp(const Tensor& x); Tensor add(const Tensor& x, const Tensor& y); ...
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) Tensor name(TensorArg x);
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(TensorArg x, const Tensor& y);                          \
  Tensor name(TensorArg x, double y);                                 \
  Tensor name(double x, TensorArg y);
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y, Caller caller = Caller::current());
Tensor where(const Tensor& condition, const Tensor& x, double y, Caller caller = Caller::current());
Tensor where(const Tensor& condition, double x, const Tensor& y, Caller caller = Caller::current());
Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high, Caller caller = Caller::current());

Tensor operator-(TensorArg x);
Tensor operator!(TensorArg x);
#define HEDDLE_OPERATOR(symbol)                     \
  Tensor operator symbol(TensorArg x, TensorArg y); \
  Tensor operator symbol(TensorArg x, double y);    \
  Tensor operator symbol(double x, TensorArg y);
HEDDLE_OPERATOR(+)
HEDDLE_OPERATOR(-)
HEDDLE_OPERATOR(*)
HEDDLE_OPERATOR(/)
HEDDLE_OPERATOR(==)
HEDDLE_OPERATOR(!=)
HEDDLE_OPERATOR(<)
HEDDLE_OPERATOR(<=)
HEDDLE_OPERATOR(>)
HEDDLE_OPERATOR(>=)
HEDDLE_OPERATOR(&&)
HEDDLE_OPERATOR(||)
#undef HEDDLE_OPERATOR

// x += y is x = x + y: a new value for this handle alone, perhaps of another shape or dtype. Copies of the handle keep
// the old one, and gradients flow through the sum; assign() is what writes into a value that others see. GradError for
// a leaf that requires a gradient, which its handle would lose: x.assign(x + y) within a NoGradScope updates it.
struct TensorTarget {
  TensorTarget(Tensor& value, Caller where = Caller::current()) : tensor(value), caller(where) {}
  Tensor& tensor;
  Caller caller;
};
#define HEDDLE_OPERATOR(symbol)                             \
  Tensor& operator symbol(TensorTarget x, const Tensor& y); \
  Tensor& operator symbol(TensorTarget x, double y);
HEDDLE_OPERATOR(+=)
HEDDLE_OPERATOR(-=)
HEDDLE_OPERATOR(*=)
HEDDLE_OPERATOR(/=)
#undef HEDDLE_OPERATOR

Tensor stop_gradient(TensorArg x);

}  // namespace heddle
