// Fourier transforms as products of matrices. Internal to core/functions/math.
//
// Purpose: what is not computed by launches of its own (fft_transform.h): f64, and the reference device. A length n =
// r s is one product with an r x r matrix of roots of unity, a multiplication by roots, and a transform of length s
// (Cooley and Tukey); lengths with a prime factor above 256 are a convolution (Bluestein). Thread safety: recording is
// per thread.
#pragma once

#include "heddle/core/functions/math/fft_transform.h"

namespace heddle::fft_products {

// As fft_transform::transform().
Tensor by_products(const Tensor& x, const fft_transform::Problem& p);

}  // namespace heddle::fft_products
