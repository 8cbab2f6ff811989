// Fourier transforms as products of matrices. Internal to core/functions/math.
//
// Purpose: what is not computed by launches of its own (fft_transform.h): f64, and the reference device. A length n =
// r s is one product with an r x r matrix of roots of unity, a multiplication by roots, and a transform of length s
// (Cooley and Tukey); lengths with a prime factor above 256 are a convolution (Bluestein). Thread safety: recording is
// per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle::fft_products {

// A transform to compute: sign of the exponent, factor of the result.
struct Kind {
  double sign = -1;
  double scale = 1;
};

struct Problem {
  Kind kind;
  int64_t keep = 0;  // elements of the result that are wanted, from 0 on
  bool real_in = false, real_out = false;
};

// Along the middle of (B, n, T, 2), or of (B, n, T) where the input is real: (B, keep, T, 2), or (B, keep, T).
Tensor by_products(const Tensor& x, const Problem& p);

}  // namespace heddle::fft_products
