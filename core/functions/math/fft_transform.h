// One Fourier transform: which way a length is computed. Internal to core/functions.
//
// Purpose: core/functions/math/fft.h checks, cuts and pads; this computes. In f32 on devices with kernels: smooth
// lengths are one launch (fft_lines.h; fft_rows.h where rows of a power of two are faster so), or two with twiddles
// between them; lengths with a prime factor above 31 are a convolution (Bluestein), a launch each way; real transforms
// of an even length are complex ones of half the length where that is one launch. Else: products of matrices
// (fft_products.h). Thread safety: recording is per thread.
#pragma once

#include "heddle/core/functions/math/fft_products.h"

namespace heddle::fft_transform {

using fft_products::Kind;
using fft_products::Problem;

// Along the middle of (B, n, T, 2), or of (B, n, T) where the input is real: (B, keep, T, 2), or (B, keep, T).
Tensor transform(const Tensor& x, const Problem& p);
// (B, n / 2 + 1, T, 2), of whose first and (n even) last element the real parts count: (B, n, T), the reals of which it
// is half the spectrum.
Tensor reals_of_half(const Tensor& half, int64_t n, const Kind& kind);

}  // namespace heddle::fft_transform
