// Special functions: Bessel, gamma, zeta, the normal distribution and entropies.
//
// Purpose: torch.special's functions that compute well in f32, composed of elementwise rows, so that each fuses into
// one kernel. Integers are cast to f32; f16 and bf16 are computed in f32; f64 is computed in f64. Gradients of any
// order come from rules of their own where the formula has branches (Bessel functions by their recurrences), else from
// the parts. Errors: ValueError, ShapeError, DTypeError. Thread safety: recording is per thread.
//
// Approximations: Chebyshev series computed with 40 digits (as many terms as the dtype needs); A & S is Abramowitz and
// Stegun, "Handbook of mathematical functions", 1964.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// ---- Bessel functions. Modified, of the first kind; ...e: times exp(-|x|), which neither overflows nor vanishes.
Tensor bessel_i0(TensorArg x);
Tensor bessel_i0e(TensorArg x);
Tensor bessel_i1(TensorArg x);
Tensor bessel_i1e(TensorArg x);
// Of the first kind. Up to |x| = 1000 the absolute error in f32 is 1e-6 (the angle's rounding grows beyond that).
Tensor bessel_j0(TensorArg x);
Tensor bessel_j1(TensorArg x);
// Of the second kind: NaN below 0, -infinity at 0. Up to x = 1000 the absolute error in f32 is 1e-6.
Tensor bessel_y0(TensorArg x);
Tensor bessel_y1(TensorArg x);

// ---- gamma
// The n-th derivative of digamma, 0 <= n <= 30, by zeta (A & S 6.4.10); for n > 0 and x <= 0 it is NaN.
Tensor polygamma(int64_t n, TensorArg x);
// Hurwitz' zeta function, the sum of (k + q)^-s for s > 1 and q > 0; infinity at s = 1, NaN elsewhere. Euler and
// Maclaurin (A & S 23.2.23). Its gradient is in q, by -s zeta(s + 1, q), and not in s.
Tensor zeta(TensorArg s, const Tensor& q);
// The incomplete gamma functions, regularised: the integral of t^(a - 1) e^-t / Gamma(a) from 0 to x, and from x to
// infinity; a, x >= 0, NaN elsewhere. Power series below x = a + 1, a continued fraction above (A & S 6.5.29, 6.5.31),
// Temme's expansion for a > 1000, where the absolute error in f32 is 1e-6. The gradient is in x; as in PyTorch there is
// none in a.
Tensor igamma(TensorArg a, const Tensor& x);
Tensor igammac(TensorArg a, const Tensor& x);
// log of the multivariate gamma function of dimension p; x > (p - 1) / 2.
Tensor multigammaln(TensorArg x, int64_t p);

// ---- the normal distribution and the error function
Tensor ndtr(TensorArg x);      // its distribution function
Tensor log_ndtr(TensorArg x);  // log of it, without underflow far below 0
Tensor ndtri(TensorArg x);     // its inverse; NaN outside [0, 1]
Tensor erfcx(TensorArg x);     // exp(x^2) erfc(x), without underflow

// ---- entropies and logarithms
Tensor entr(TensorArg x);                         // -x log x, 0 at 0, -infinity below
Tensor xlog1py(TensorArg x, const Tensor& y);     // x log(1 + y), 0 where x is 0
Tensor logaddexp2(TensorArg x, const Tensor& y);  // log2(2^x + 2^y)

}  // namespace heddle
