// Elementwise functions composed of rows of elementwise.inc: arithmetic and tests. Activations: activations.h.
//
// Purpose: each records a handful of nodes that fuse into one kernel; gradients of any order come from the rows'.
// Shapes broadcast and dtypes promote as in core/functions/functions.h; integers are cast to f32 where the function is
// not one of whole numbers. At kinks the gradient is that of the side named in docs/gradients.md. Errors: ShapeError,
// DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// ---- arithmetic
Tensor hypot(TensorArg x, const Tensor& y);      // sqrt(x^2 + y^2) without overflow
Tensor logaddexp(TensorArg x, const Tensor& y);  // log(e^x + e^y) without overflow
Tensor xlogy(TensorArg x, const Tensor& y);      // x log y, and 0 where x is 0 and y <= 0
Tensor remainder(TensorArg x, const Tensor& y);  // mod: the sign of y
Tensor remainder(TensorArg x, double y);
Tensor fmod(TensorArg x, const Tensor& y);  // the sign of x, as in C
Tensor fmod(TensorArg x, double y);
Tensor floor_divide(TensorArg x, const Tensor& y);  // floor(x / y); integers stay integers, by 0 they give 0
Tensor floor_divide(TensorArg x, double y);
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight,
            Caller caller = Caller::current());  // start + weight (end - start)
Tensor lerp(const Tensor& start, const Tensor& end, double weight, Caller caller = Caller::current());
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1,
               Caller caller = Caller::current());  // x + value a b
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1,
               Caller caller = Caller::current());  // x + value a / b
Tensor frac(TensorArg x);                           // x - trunc(x)
Tensor deg2rad(TensorArg x);
Tensor rad2deg(TensorArg x);
Tensor sinc(TensorArg x);  // sin(pi x) / (pi x), 1 at 0
// d/dx log Gamma(x). Asymptotic series after six steps of psi(x + 1) = psi(x) + 1/x, reflected below 1/2 (Abramowitz
// and Stegun 6.3.5, 6.3.7, 6.3.18).
Tensor digamma(TensorArg x);
Tensor heaviside(TensorArg x, const Tensor& at_zero);  // 0 below 0, 1 above, at_zero at 0
// NaN, infinity and -infinity replaced; by default with 0 and the largest and least finite values of the dtype.
// Integers stay.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> infinity = {},
                  std::optional<double> minus_infinity = {}, Caller caller = Caller::current());
// y below (not above) the bits of x's dtype; a shift beyond them gives 0, to the right of a negative number -1.
Tensor bitwise_left_shift(TensorArg x, const Tensor& y);
Tensor bitwise_right_shift(TensorArg x, const Tensor& y);

// ---- tests, giving bool
Tensor isfinite(TensorArg x);
Tensor logical_xor(TensorArg x, const Tensor& y);
// |x - y| <= absolute + relative |y|; equal infinities are close.
Tensor isclose(const Tensor& x, const Tensor& y, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false,
               Caller caller = Caller::current());

}  // namespace heddle
