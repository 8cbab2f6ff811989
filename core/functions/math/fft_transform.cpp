#include "heddle/core/functions/math/fft_transform.h"

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

constexpr int64_t shortest_cut = 16384;  // on CPUs; below, rows fewer than cores are not worth two launches

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

Tensor rows_transformed(const Tensor& x, const Problem& p);

Tensor complex_rows(const Tensor& x, const Kind& kind) { return rows_transformed(x, {kind, x.dim(1), false, false}); }

// The first `keep` elements of rows (R, n, 2), or their real parts.
Tensor kept(const Tensor& y, const Problem& p) {
  const Tensor first = p.keep == y.dim(1) ? y : slice(y, 1, {.start = 0, .stop = p.keep});
  return p.real_out ? real_part(first) : first;
}

// Four steps: columns of (n1, n2), twiddles, rows, and the result turned. By two launches where n2 fits one. Rows of x
// are whole rows of the matrix, and count as 0 behind; `before` (2, elements of a row of x) multiplies them first.
Tensor two_passes(const Tensor& x, int64_t n1, int64_t n2, const Problem& p, const Tensor& before = {}) {
  const int64_t rows = x.dim(0), given = x.dim(1) / n2;
  FftLines first{.n = n1, .given = given, .wanted = n1, .sign = p.kind.sign, .real_in = p.real_in};
  first.columns_in = first.columns_out = true;
  const Tensor y = fft_lines(reshape(x, p.real_in ? Shape{rows, given, n2} : Shape{rows, given, n2, 2}), first,
                             before.defined() ? reshape(before, Shape{2, given, n2}) : before,
                             build::twiddle_table(x.device(), n1, n2, p.kind.sign));
  if (n2 > build::longest_fft_line(x.device())) {
    const Tensor z = complex_rows(reshape(y, Shape{rows * n1, n2, 2}), p.kind);
    return kept(reshape(permute(reshape(z, Shape{rows, n1, n2, 2}), {0, 2, 1, 3}), Shape{rows, n1 * n2, 2}), p);
  }
  const int64_t wanted = (p.keep + n1 - 1) / n1;  // rows of n1 results
  const FftLines second{.n = n2,
                        .given = n2,
                        .wanted = wanted,
                        .sign = p.kind.sign,
                        .scale = p.kind.scale,
                        .real_out = p.real_out,
                        .columns_out = true};
  const Shape flat{rows, wanted * n1};
  const Tensor z = reshape(fft_lines(y, second), p.real_out ? flat : Shape{flat[0], flat[1], 2});
  return p.keep == flat[1] ? z : slice(z, 1, {.start = 0, .stop = p.keep});
}

// Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution. L. Bluestein, "A linear filtering approach
// to the computation of discrete Fourier transform", 1970. Chirps and their spectrum are tables of the two transforms.
Tensor convolved_rows(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1), m = build::convolution_length(n);
  const double sign = p.kind.sign, scale = p.kind.scale / static_cast<double>(m);
  DeviceContext& device = x.device();
  if (build::convolves_fft_row(device, m)) {
    FftLines whole{.n = m, .given = n, .wanted = p.keep, .sign = sign, .scale = scale};
    whole.chirp = n;
    whole.real_in = p.real_in;
    whole.real_out = p.real_out;
    return line_rows(x, whole);
  }
  const Tensor chirp = build::chirp_table(device, n, n, sign), last = build::chirp_table(device, n, p.keep, sign),
               spectrum = build::chirp_spectrum(device, n, m, sign);
  if (build::fits_fft_row(device, m)) {
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

// Whether a transform of n reals, or to n reals, is one launch for n / 2 pairs. Where it is not, all n are transformed:
// what takes half a spectrum apart would be a pass over memory of its own.
bool by_halves(const Tensor& x, int64_t n) { return n % 2 == 0 && build::fits_fft_row(x.device(), n / 2); }

// Whether rows of a smooth length are worth two launches: they do not fit one, or leave a CPU's cores without work.
bool by_two_launches(const Tensor& x, int64_t n) {
  if (!build::fits_fft_row(x.device(), n)) return true;
  return on_cpu(x) && n >= shortest_cut && x.dim(0) < x.device().caps().compute_units;
}

// Rows (R, n[, 2]) of any length: (R, keep[, 2]).
Tensor rows_transformed(const Tensor& x, const Problem& p) {
  const int64_t rows = x.dim(0), n = x.dim(1), m = n / 2;
  const double sign = p.kind.sign, scale = p.kind.scale;
  if (p.real_in && !p.real_out && p.keep == m + 1 && by_halves(x, n))
    return line_rows(reshape(x, Shape{rows, m, 2}),
                     {.n = m, .given = m, .wanted = m + 1, .sign = sign, .scale = scale, .half = Half::forward});
  if (build::takes_fft_rows(x, n)) return build::fft_rows(x, {n, n, p.keep, sign, scale, p.real_in, p.real_out});
  const int64_t n1 = build::first_of_two_passes(n, build::longest_fft_line(x.device()));
  if (!build::is_smooth(n) || (n1 == 0 && !build::fits_fft_row(x.device(), n))) return convolved_rows(x, p);
  if (n1 > 0 && by_two_launches(x, n)) return two_passes(x, n1, n / n1, p);
  FftLines how{.n = n, .given = n, .wanted = p.keep, .sign = sign, .scale = scale};
  how.real_in = p.real_in;
  how.real_out = p.real_out;
  return line_rows(x, how);
}

// Rows (R, n / 2 + 1, 2) of half spectra, each element as often as the whole one has it: (R, n). Undefined where n is
// neither one launch nor two.
Tensor weighted_rows(const Tensor& x, const Problem& p) {
  const int64_t n = p.keep, given = x.dim(1);
  if (build::fits_fft_row(x.device(), n)) {
    FftLines how{.n = n, .given = given, .wanted = n, .sign = p.kind.sign, .scale = p.kind.scale};
    how.real_out = true;
    return line_rows(x, how, build::half_weights(x.device(), n, given));
  }
  const int64_t n1 = build::first_of_two_passes(n, build::longest_fft_line(x.device()));
  if (n1 == 0) return {};
  const int64_t n2 = n / n1, whole = (given + n2 - 1) / n2 * n2;
  const Tensor padded = pad(x, {{0, 0}, {0, whole - given}, {0, 0}});
  return two_passes(padded, n1, n2, p, build::half_weights(x.device(), n, whole));
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
  if (build::takes_fft_lines(half) && by_halves(half, n)) {
    const int64_t m = n / 2;
    const Tensor y =
        line_rows(rows_of(half, false),
                  {.n = m, .given = m + 1, .wanted = m, .sign = kind.sign, .scale = kind.scale, .half = Half::back});
    return back_from_rows(reshape(y, Shape{y.dim(0), n}), half.dim(0), half.dim(2), true);
  }
  // The other half is the conjugate of this one: what is in between counts twice, and the result's real part is all of
  // it.
  const Problem p{kind, n, false, true};
  if (build::takes_fft_lines(half) && build::is_smooth(n)) {
    const Tensor y = weighted_rows(rows_of(half, false), p);
    if (y.defined()) return back_from_rows(y, half.dim(0), half.dim(2), true);
  }
  const Tensor place = build::positions(half.shape(), 1, half.device());
  const Tensor twice = place > 0 && place < static_cast<double>((n + 1) / 2);
  return transform(pad(where(twice, 2 * half, half), {{0, 0}, {0, n - half.dim(1)}, {0, 0}, {0, 0}}), p);
}

}  // namespace heddle::fft_transform
