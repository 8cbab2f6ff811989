// Fourier transforms of lines by one launch of shaders/fft_lines.hk. Internal to core/functions/math.
//
// Purpose: any smooth length (fft_lengths.h) that fits a launch, in f32, on devices with kernels. Lines are the rows or
// the columns of matrices; half spectra of reals cost a transform of half the length; tables that elements are
// multiplied by, before and after, make of two launches the four steps of a long transform, or Bluestein's convolution.
// Recorded as a body kernel of core/functions/user/user_kernel.h, which brings derivatives of any order and vmap: the
// matrix of roots is symmetric, so the transpose of a transform is the one of the other sign, with input and output,
// and the conjugates of the tables, exchanged. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle::build {

// What one launch computes: y[l, j] = scale after[j] sum_k before[k] x[l, k] exp(sign 2 pi i j k / n).
struct FftLines {
  enum class Half : uint8_t { none, forward, back };  // reals to half a spectrum; half a spectrum to reals
  int64_t n = 0;                                      // length; of half spectra half the reals
  int64_t given = 0, wanted = 0;  // pairs (reals) of a line of the input, zeros behind; of the result
  double sign = -1, scale = 1;
  double edge = 1;  // factor of the first and the last element of a half spectrum
  Half half = Half::none;
  // Above 0: y is the transform of this length, by Bluestein's convolution of length n; where convolves_fft_row() only.
  int64_t chirp = 0;
  bool real_in = false, real_out = false;        // reals instead of pairs; of the result the real parts
  bool columns_in = false, columns_out = false;  // lines are columns: at least shortest_columns of them
};

constexpr int64_t shortest_columns = 16;

bool takes_fft_lines(const Tensor& x);
// Elements of the longest line that a device takes; a smooth length up to it is one launch.
int64_t longest_fft_line(const DeviceContext& device);
// Whether rows of n elements are one launch: CPUs take longer rows than columns, by four steps.
bool fits_fft_row(const DeviceContext& device, int64_t n);
// Whether a convolution of length m is one launch.
bool convolves_fft_row(const DeviceContext& device, int64_t m);
// x (B, lines, given, 2) or, in columns, (B, given, lines, 2); without the 2 where it holds reals. The result likewise,
// with `wanted`. Half spectra: the reals are pairs of neighbours, given or wanted is n + 1 for the spectrum. Tables,
// undefined for none: (2, given) and (2, wanted), or with an axis of lines behind.
Tensor fft_lines(const Tensor& x, const FftLines& how, const Tensor& before = {}, const Tensor& after = {});

}  // namespace heddle::build
