// One Fourier transform: which way a length is computed, and the products of matrices it becomes. Internal to
// core/functions.
//
// Purpose: core/functions/math/fft.h checks, cuts and pads; this computes. Powers of two are one launch (fft_rows.h),
// other lengths products with matrices of roots of unity, factor by factor, and those with a large prime factor a
// convolution (Bluestein). Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle::fft_transform {

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
Tensor transform(const Tensor& x, const Problem& p);

}  // namespace heddle::fft_transform
