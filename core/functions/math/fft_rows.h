// Fourier transforms of rows by one launch of shaders/fft.hk. Internal to core/functions/math.
//
// Purpose: lengths that are a power of two, in f32, on GPUs; for all others, and on CPUs, there is fft_lines.h.
// Recorded as a body kernel of core/functions/user/user_kernel.h, which brings derivatives of any order and
// vmap: the matrix of roots is symmetric, so the transpose of a transform is the one of the other sign, with input and
// output exchanged. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle::build {

struct FftRows {
  int64_t n = 0;                  // length
  int64_t given = 0, wanted = 0;  // elements of the input, zeros behind them; elements of the result, from 0 on
  double sign = -1, scale = 1;    // of the exponent; factor of the result
  bool real_in = false, real_out = false;  // reals instead of pairs; of the result the real parts
};

constexpr int64_t shortest_fft_row = 256, longest_fft_row = 16384;
bool takes_fft_rows(const Tensor& x, int64_t n);
// x (B, given, 2), or (B, given) of reals: (B, wanted, 2), or (B, wanted).
Tensor fft_rows(const Tensor& x, const FftRows& how);

}  // namespace heddle::build
