// Tables of roots of unity that Fourier transforms read. Internal to core/functions/math.
//
// Purpose: roots are computed on the host, in double precision, and rounded once, so that an error of a table is half a
// unit of its last place. Invariants: planar f32 tables, real parts before imaginary ones; each thread keeps the last
// ones that it asked for, at most most_table_bytes of them, so a transform that repeats computes none. Thread safety: a
// thread has tables of its own.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle::build {

constexpr int64_t most_table_bytes = int64_t{32} << 20;

// (2, count): exp(sign 2 pi i e / n) at e.
Tensor root_table(DeviceContext& device, int64_t n, int64_t count, double sign);
// (2, rows, columns): exp(sign 2 pi i j k / (rows columns)) at [j, k], what the two passes of a long transform are
// joined by (Gentleman and Sande, "Fast Fourier transforms: for fun and profit", 1966: four steps).
Tensor twiddle_table(DeviceContext& device, int64_t rows, int64_t columns, double sign);
// (2, n / 2 + 1 + n + tall + wide) with n = tall wide, the first n / 2 + 1 only with `half`: exp(sign pi i k / n) at k,
// exp(sign 2 pi i j k / n) at [j, k] of (tall, wide), roots of tall, roots of wide: what shaders/fft_steps.hki reads.
Tensor steps_table(DeviceContext& device, int64_t tall, int64_t wide, double sign, bool half);
// (2, m + tall + wide + m) with m = tall wide: steps_table of sign -1, and behind it chirp_spectrum of n.
Tensor convolution_table(DeviceContext& device, int64_t n, int64_t tall, int64_t wide, double sign);
// (2, count): how often the elements of half a spectrum of n reals occur in the whole one: 1 for the first and, n even,
// for n / 2, 2 in between, 0 behind.
Tensor half_weights(DeviceContext& device, int64_t n, int64_t count);
// (2, count): exp(sign pi i j^2 / n), Bluestein's chirp.
Tensor chirp_table(DeviceContext& device, int64_t n, int64_t count, double sign);
// (2, m): the spectrum, of length m and sign -1, of the chirp's conjugate from -(n - 1) to n - 1, modulo m.
Tensor chirp_spectrum(DeviceContext& device, int64_t n, int64_t m, double sign);

}  // namespace heddle::build
