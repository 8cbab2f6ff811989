#include "heddle/core/functions/math/fft_transform.h"

#include <algorithm>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/complex.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/fft_lengths.h"
#include "heddle/core/functions/math/fft_lines.h"
#include "heddle/core/functions/math/fft_products.h"
#include "heddle/core/functions/math/fft_rows.h"
#include "heddle/core/functions/math/fft_tables.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle::fft_transform {
namespace {

using build::fft_lines;
using build::FftLines;
using Half = FftLines::Half;

constexpr int64_t few_rows = 8;        // so few leave lanes without work where a lane has 16 lines
constexpr int64_t shortest_cut = 256;  // below, a row alone is not worth two launches
constexpr int64_t longest_shared = 2048;

bool on_cpu(const Tensor& x) { return x.device().caps().machine() == Machine::cpu_loops; }

// (B, n, T[, 2]) and (B, T, n[, 2]): one becomes the other.
Tensor turned(const Tensor& x, bool real) {
  return x.dim(2) == 1 || x.dim(1) == 1
             ? reshape(x, real ? Shape{x.dim(0), x.dim(2), x.dim(1)} : Shape{x.dim(0), x.dim(2), x.dim(1), 2})
             : permute(x, real ? std::vector<int>{0, 2, 1} : std::vector<int>{0, 2, 1, 3});
}
// Rows (R, n[, 2]) of x (B, n, T[, 2]), and back.
Tensor rows_of(const Tensor& x, bool real) {
  const Shape flat{x.dim(0) * x.dim(2), x.dim(1)};
  return reshape(turned(x, real), real ? flat : Shape{flat[0], flat[1], 2});
}
Tensor back_from_rows(const Tensor& y, int64_t batch, int64_t tail, bool real) {
  const int64_t n = y.dim(1);
  return turned(reshape(y, real ? Shape{batch, tail, n} : Shape{batch, tail, n, 2}), real);
}

// One launch for rows (R, given[, 2]): (R, wanted[, 2]).
Tensor line_rows(const Tensor& x, const FftLines& how, const Tensor& before = {}, const Tensor& after = {}) {
  const Tensor y = fft_lines(unsqueeze(x, 0), how, before, after);
  return reshape(y, y.shape().without(0));
}

Tensor complex_rows(const Tensor& x, const Kind& kind);

// Four steps: columns of (n1, n2), twiddles, rows, and the result turned. By two launches where n2 fits one.
Tensor two_passes(const Tensor& x, int64_t n1, const Kind& kind) {
  const int64_t rows = x.dim(0), n = x.dim(1), n2 = n / n1;
  FftLines first{.n = n1, .given = n1, .wanted = n1, .sign = kind.sign};
  first.columns_in = first.columns_out = true;
  const Tensor y =
      fft_lines(reshape(x, Shape{rows, n1, n2, 2}), first, {}, build::twiddle_table(x.device(), n1, n2, kind.sign));
  if (n2 > build::longest_fft_line(x.device())) {
    const Tensor z = complex_rows(reshape(y, Shape{rows * n1, n2, 2}), kind);
    return reshape(permute(reshape(z, Shape{rows, n1, n2, 2}), {0, 2, 1, 3}), Shape{rows, n, 2});
  }
  FftLines second{.n = n2, .given = n2, .wanted = n2, .sign = kind.sign, .scale = kind.scale};
  second.columns_out = true;
  return reshape(fft_lines(y, second), Shape{rows, n, 2});
}

// Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution. L. Bluestein, "A linear filtering approach
// to the computation of discrete Fourier transform", 1970. Chirps and their spectrum are tables of the two transforms.
Tensor convolved_rows(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1), m = build::convolution_length(n);
  const double sign = p.kind.sign, scale = p.kind.scale / static_cast<double>(m);
  DeviceContext& device = x.device();
  const Tensor chirp = build::chirp_table(device, n, n, sign), last = build::chirp_table(device, n, p.keep, sign),
               spectrum = build::chirp_spectrum(device, n, m, sign);
  if (m <= build::longest_fft_line(device)) {
    const FftLines there{.n = m, .given = n, .wanted = m, .real_in = p.real_in};
    const FftLines back{.n = m, .given = m, .wanted = p.keep, .sign = 1, .scale = scale, .real_out = p.real_out};
    return line_rows(line_rows(x, there, chirp, spectrum), back, {}, last);
  }
  const Tensor pairs = p.real_in ? complex_pair(x, zeros_like(x)) : x;
  const Tensor signal = pad(complex_mul(pairs, transpose(chirp)), {{0, 0}, {0, m - n}, {0, 0}});
  const Tensor product = complex_mul(complex_rows(signal, {-1, 1}), transpose(spectrum));
  const Tensor y = slice(complex_rows(product, {1, scale}), 1, {.start = 0, .stop = p.keep});
  const Tensor z = complex_mul(y, transpose(last));
  return p.real_out ? real_part(z) : z;
}

// Whether rows of a power of two go by shaders/fft.hk: a lane of a CPU that has one row works within its caches, where
// 16 long ones do not fit.
bool by_power_of_two(const Tensor& x, int64_t n) {
  return build::takes_fft_rows(x, n) && (!on_cpu(x) || n > longest_shared || x.dim(0) < few_rows);
}

// Rows (R, n, 2) of any length.
Tensor complex_rows(const Tensor& x, const Kind& kind) {
  const int64_t n = x.dim(1), longest = build::longest_fft_line(x.device());
  if (by_power_of_two(x, n)) return build::fft_rows(x, {n, n, n, kind.sign, kind.scale, false, false});
  const int64_t n1 = build::first_of_two_passes(n, longest);
  if (!build::is_smooth(n) || (n > longest && n1 == 0)) return convolved_rows(x, {kind, n, false, false});
  const bool cut = n > longest || (on_cpu(x) && n >= shortest_cut && x.dim(0) < few_rows && n1 > 0);
  if (cut) return two_passes(x, n1, kind);
  return line_rows(x, {.n = n, .given = n, .wanted = n, .sign = kind.sign, .scale = kind.scale});
}

// exp(sign 2 pi i k / n), k <= n / 2, as pairs (n / 2 + 1, 2).
Tensor half_roots(const Tensor& like, int64_t n, double sign) {
  return transpose(build::root_table(like.device(), n, n / 2 + 1, sign));
}

// Rows (R, n) of reals, n even: (R, n / 2 + 1, 2), by a transform of the pairs of neighbours.
Tensor half_of_reals(const Tensor& x, const Kind& kind) {
  const int64_t rows = x.dim(0), n = x.dim(1), m = n / 2;
  const Tensor pairs = reshape(x, Shape{rows, m, 2});
  if (build::is_smooth(m) && m <= build::longest_fft_line(x.device()))
    return line_rows(
        pairs, {.n = m, .given = m, .wanted = m + 1, .sign = kind.sign, .scale = kind.scale, .half = Half::forward});
  const Tensor z = complex_rows(pairs, {kind.sign, kind.scale / 2});
  const Tensor there = concat({z, slice(z, 1, {.start = 0, .stop = 1})}, 1), back = complex_conj(flip(there, {1}));
  return there + back + complex_mul(build::times_i(back - there), half_roots(x, n, kind.sign));
}

// (R, n / 2 + 1, 2) to (R, n), n even.
Tensor reals_of_even(const Tensor& half, const Kind& kind) {
  const int64_t rows = half.dim(0), m = half.dim(1) - 1, n = 2 * m;
  if (build::is_smooth(m) && m <= build::longest_fft_line(half.device()))
    return reshape(
        line_rows(half,
                  {.n = m, .given = m + 1, .wanted = m, .sign = kind.sign, .scale = kind.scale, .half = Half::back}),
        Shape{rows, n});
  const Tensor place = build::positions(half.shape(), 1, half.device()),
               part = build::positions(half.shape(), 2, half.device());
  const Tensor real = where(part == 1 && (place == 0 || place == static_cast<double>(m)), zeros_like(half), half);
  const Tensor back = complex_conj(flip(real, {1}));
  const Tensor z = real + back + build::times_i(complex_mul(real - back, half_roots(half, n, kind.sign)));
  return reshape(complex_rows(slice(z, 1, {.start = 0, .stop = m}), kind), Shape{rows, n});
}

// Rows (R, n[, 2]): (R, keep[, 2]).
Tensor rows_transformed(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1);
  if (p.real_in && !p.real_out && n % 2 == 0 && p.keep == n / 2 + 1) return half_of_reals(x, p.kind);
  if (by_power_of_two(x, n))
    return build::fft_rows(x, {n, n, p.keep, p.kind.sign, p.kind.scale, p.real_in, p.real_out});
  if (!build::is_smooth(n)) return convolved_rows(x, p);
  if (n <= build::longest_fft_line(x.device()) && (p.real_in || p.real_out || p.keep < n))
    return line_rows(x, {.n = n,
                         .given = n,
                         .wanted = p.keep,
                         .sign = p.kind.sign,
                         .scale = p.kind.scale,
                         .real_in = p.real_in,
                         .real_out = p.real_out});
  const Tensor y = complex_rows(p.real_in ? complex_pair(x, zeros_like(x)) : x, p.kind);
  const Tensor kept = p.keep == n ? y : slice(y, 1, {.start = 0, .stop = p.keep});
  return p.real_out ? real_part(kept) : kept;
}

// (B, n, T, 2) of many columns: as they lie.
bool in_columns(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1);
  return !p.real_in && !p.real_out && p.keep == n && x.dim(2) >= build::shortest_columns && build::is_smooth(n) &&
         n <= build::longest_fft_line(x.device());
}

}  // namespace

Tensor transform(const Tensor& x, const Problem& p) {
  if (!build::takes_fft_lines(x)) return fft_products::by_products(x, p);
  const int64_t n = x.dim(1);
  if (in_columns(x, p)) {
    FftLines how{.n = n, .given = n, .wanted = n, .sign = p.kind.sign, .scale = p.kind.scale};
    how.columns_in = how.columns_out = true;
    return fft_lines(x, how);
  }
  return back_from_rows(rows_transformed(rows_of(x, p.real_in), p), x.dim(0), x.dim(2), p.real_out);
}

Tensor reals_of_half(const Tensor& half, int64_t n, const Kind& kind) {
  if (n % 2 == 0 && build::takes_fft_lines(half))
    return back_from_rows(reals_of_even(rows_of(half, false), kind), half.dim(0), half.dim(2), true);
  // The other half is the conjugate of this one: what is in between counts twice, and the result's real part is all of
  // it.
  const Tensor place = build::positions(half.shape(), 1, half.device());
  const Tensor twice = place > 0 && place < static_cast<double>((n + 1) / 2);
  const Tensor whole = pad(where(twice, 2 * half, half), {{0, 0}, {0, n - half.dim(1)}, {0, 0}, {0, 0}});
  return transform(whole, {kind, n, false, true});
}

}  // namespace heddle::fft_transform
