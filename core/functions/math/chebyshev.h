// Chebyshev series of the functions of special.h. Internal to core/functions/math.
//
// Thread safety: constants, and recording per thread.
#pragma once

#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::chebyshev {

// Coefficients of Chebyshev polynomials T_0, T_1, ... in [-1, 1], computed with 40 digits; the first `short_terms` are
// enough for f32.
struct Series {
  size_t short_terms = 0;
  std::vector<double> c;
};
// Their sum at t, by Clenshaw's recurrence.
Tensor sum_of(const Series& s, const Tensor& t);

// i0, i1 / x times exp(-x) for x = 4 (t + 1); their like times sqrt(x) exp(-x) for x = 16 / (t + 1); j0, j1 / x and the
// rests of y0, y1 / x for x^2 = 32 (t + 1); P and Q x / 8 for (8 / x)^2 = (t + 1) / 2; (1 + 2 x) erfcx(x) for x = 3.75
// (1 + t) / (1 - t).
extern const Series i0_near, i0_far, i1_near, i1_far, j0_near, j1_near, y0_rest, y1_rest, p0, q0, p1, q1, erfcx_series;

}  // namespace heddle::chebyshev
