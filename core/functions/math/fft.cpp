// Fourier transforms: one launch for powers of two (fft_rows.h), else products with matrices of roots of unity.
#include "core/functions/math/fft.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>

#include "core/base/of_this_thread.h"
#include "core/functions/build_shape.h"
#include "core/functions/math/fft_rows.h"
#include "core/graph/autocast.h"

namespace heddle {
namespace {

using build::positions;
using build::product;

constexpr int64_t largest_prime =
    256;  // as a factor of its own; above that Bluestein's two transforms of a power of two cost less
constexpr int64_t step_cost =
    96;  // of one more factor, in elements of a matrix' row: what passing over memory costs beside multiplying

// A transform to compute: sign of the exponent, factor of the result.
struct Kind {
  double sign = -1;
  double scale = 1;
};

// ---- roots of unity
struct Roots {
  Tensor real, imaginary;
};
// exp(sign 2 pi i m / n) for integers m with 4 m < 2^31, of a floating dtype. The quarter turns are taken off in whole
// numbers; their count may be off by one near its halves, where either will do, so it is found by a multiplication:
// whole numbers divide one by one.
Roots roots(const Tensor& m, int64_t n, double sign, DType t) {
  const Tensor quarter = cast(round(cast(m, t) * (4 / static_cast<double>(n))), m.dtype());
  const Tensor rest = 4 * m - quarter * static_cast<double>(n);  // of 4 n to a turn
  const Tensor angle = cast(rest, t) * (std::numbers::pi / (2 * static_cast<double>(n)));
  const Tensor c = cos(angle), s = sin(angle), phase = bitwise_and(quarter, full_like(quarter, 3));
  const Tensor odd = phase == 1 || phase == 3, left = phase == 1 || phase == 2, below = phase == 2 || phase == 3;
  const Tensor real = where(odd, s, c), imaginary = where(odd, c, s);
  return {where(left, -real, real), where(sign > 0 ? below : !below, -imaginary, imaginary)};
}

// j k over a grid in which `row_axis` counts j and `column_axis` k.
Tensor exponents(const Shape& shape, int row_axis, int column_axis, DeviceContext& device) {
  return positions(shape, row_axis, device) * positions(shape, column_axis, device);
}

// ---- plans: n as a product of factors, cheapest first; empty where it has none
struct Known : std::map<int64_t, std::pair<int64_t, std::vector<int64_t>>> {};  // cost, factors
const std::vector<int64_t>& factors_of(int64_t n) {
  Known& known = of_this_thread<Known>();
  if (const auto at = known.find(n); at != known.end()) return at->second.second;
  std::pair<int64_t, std::vector<int64_t>> best{n <= largest_prime ? n + step_cost : INT64_MAX, {}};
  if (n <= largest_prime) best.second = {n};
  for (int64_t r = 2; r <= std::min<int64_t>(n - 1, largest_prime); ++r) {
    if (n % r != 0) continue;
    const std::vector<int64_t> rest = factors_of(n / r);
    if (rest.empty()) continue;
    const int64_t cost = r + step_cost + known[n / r].first;
    if (cost >= best.first) continue;
    best = {cost, {r}};
    best.second.insert(best.second.end(), rest.begin(), rest.end());
  }
  return (known[n] = std::move(best)).second;
}

// ---- one transform along the middle of (B, n, T, 2), or of (B, n, T) where the input is real: (B, keep, T, 2), or (B,
// keep, T)
struct Problem {
  Kind kind;
  int64_t keep = 0;  // elements of the result that are wanted, from 0 on
  bool real_in = false, real_out = false;
};

// (2 keep, n): the matrix' real part above its imaginary part.
Tensor stacked_matrix(const Tensor& like, int64_t n, int64_t keep, const Kind& kind) {
  const Shape grid{keep, n};
  const Roots w = roots(exponents(grid, 0, 1, like.device()), n, kind.sign, like.dtype());
  const Tensor matrix = concat({w.real, w.imaginary}, 0);
  return kind.scale == 1 ? matrix : matrix * kind.scale;
}

// (n [2], keep [2]): what a row of reals or pairs is multiplied by.
Tensor row_matrix(const Tensor& like, int64_t n, const Problem& p) {
  const int64_t in = p.real_in ? 1 : 2, out = p.real_out ? 1 : 2;
  const Shape grid{n, in, p.keep, out};
  const Roots w = roots(exponents(grid, 0, 2, like.device()), n, p.kind.sign, like.dtype());
  const Tensor from = positions(grid, 1, like.device()), to = positions(grid, 3, like.device());
  const Tensor entry = where(from == to, w.real, where(to == 1, w.imaginary, -w.imaginary));
  return reshape(p.kind.scale == 1 ? entry : entry * p.kind.scale, Shape{n * in, p.keep * out});
}

// Pairs (.., 2) turned by a quarter: (-b, a).
Tensor turned(const Tensor& z) {
  const Tensor sign = 2 * positions(z.shape(), z.rank() - 1, z.device()) - 1;
  return flip(z, {z.rank() - 1}) * cast(sign, z.dtype());
}

// One factor: (B, r, S) times [C; S], then (B, r, s, T, 2) multiplied by the roots of n. x is real or holds pairs in
// its last axis.
Tensor first_step(const Tensor& x, int64_t r, int64_t s, int64_t tail, const Kind& kind, bool real_in) {
  const int64_t batch = x.dim(0), n = r * s;
  const Tensor y = build::plain_matmul(stacked_matrix(x, r, r, kind),
                                       reshape(x, Shape{batch, r, x.numel() / std::max<int64_t>(1, batch * r)}));
  const Shape grid{1, r, s, 1, 1};
  const Roots w = roots(exponents(grid, 1, 2, x.device()), n, kind.sign, x.dtype());
  const auto half = [&](int k) { return slice(y, 1, {.start = k * r, .stop = (k + 1) * r}); };
  if (real_in) {  // (a + i b) w
    const Shape parts{batch, r, s, tail, 1};
    const Tensor a = reshape(half(0), parts), b = reshape(half(1), parts);
    return concat({a * w.real - b * w.imaginary, a * w.imaginary + b * w.real}, 4);
  }
  const Shape parts{batch, r, s, tail, 2};
  const Tensor a = reshape(half(0), parts), b = reshape(half(1), parts);
  return (a + turned(b)) * w.real + (turned(a) - b) * w.imaginary;
}

Tensor transform(const Tensor& x, const Problem& p);

Tensor single(const Tensor& x, const Problem& p) {
  const int64_t batch = x.dim(0), n = x.dim(1), tail = x.dim(2);
  Shape shape{batch, p.keep, tail};
  if (!p.real_out) shape.push_back(2);
  if (tail == 1)
    return reshape(build::plain_matmul(reshape(x, Shape{batch, n * (p.real_in ? 1 : 2)}), row_matrix(x, n, p)), shape);
  const Tensor y = build::plain_matmul(stacked_matrix(x, n, p.keep, p.kind),
                                       reshape(x, Shape{batch, n, tail * (p.real_in ? 1 : 2)}));
  const auto half = [&](int k) { return slice(y, 1, {.start = k * p.keep, .stop = (k + 1) * p.keep}); };
  const Shape parts = p.real_in ? Shape{batch, p.keep, tail, 1} : Shape{batch, p.keep, tail, 2};
  const Tensor a = reshape(half(0), parts), b = reshape(half(1), parts);
  if (p.real_in) return p.real_out ? reshape(a, shape) : concat({a, b}, 3);
  const Tensor z = a + turned(b);
  return p.real_out ? reshape(slice(z, 3, {.start = 0, .stop = 1}), shape) : z;
}

Tensor factored(const Tensor& x, const Problem& p, int64_t r) {
  const int64_t batch = x.dim(0), n = x.dim(1), tail = x.dim(2), s = n / r;
  const Tensor stepped = first_step(x, r, s, tail, {p.kind.sign, 1}, p.real_in);
  Problem rest{p.kind, (p.keep - 1) / r + 1, false, p.real_out};
  const Tensor y = transform(reshape(stepped, Shape{batch * r, s, tail, 2}),
                             rest);  // (B r, keep', T, 2): element k' r + k of the whole
  const int64_t pair = p.real_out ? 1 : 2;
  const Tensor whole = reshape(permute(reshape(y, Shape{batch, r, rest.keep, tail * pair}), {0, 2, 1, 3}),
                               Shape{batch, rest.keep * r, tail * pair});
  Shape shape{batch, p.keep, tail};
  if (!p.real_out) shape.push_back(2);
  return reshape(slice(whole, 1, {.start = 0, .stop = p.keep}), shape);
}

// exp(sign pi i j^2 / n) for j < count, as pairs (1, count, 1, 2). j^2 counts modulo 2 n.
Tensor chirp(const Tensor& like, int64_t n, int64_t count, double sign) {
  const Tensor j = cast(positions(Shape{1, count, 1}, 1, like.device()), DType::i64);
  const Roots w = roots(cast(mod(j * j, static_cast<double>(2 * n)), DType::i32), 2 * n, sign, like.dtype());
  return complex_pair(w.real, w.imaginary);
}

// Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution. L. Bluestein, "A linear filtering approach
// to the computation of discrete Fourier transform", 1970.
Tensor convolved(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1);
  const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  const Tensor pairs = p.real_in ? complex_pair(x, zeros_like(x)) : x;  // (B, n, T, 2)
  const Tensor w = chirp(x, n, n, p.kind.sign), inverse = complex_conj(w);
  const Tensor mirrored = flip(slice(inverse, 1, {.start = 1}), {1});
  const Tensor wave = concat({inverse, zeros(Shape{1, m - 2 * n + 1, 1, 2}, x.dtype(), &x.device()), mirrored}, 1);
  const Tensor signal = pad(complex_mul(pairs, w), {{0, 0}, {0, m - n}, {0, 0}, {0, 0}});
  const Problem there{{-1, 1}, m, false, false}, back{{1, p.kind.scale / static_cast<double>(m)}, p.keep, false, false};
  const Tensor y = transform(complex_mul(transform(signal, there), transform(wave, there)), back);
  const Tensor z = complex_mul(y, slice(w, 1, {.start = 0, .stop = p.keep}));
  return p.real_out ? reshape(slice(z, 3, {.start = 0, .stop = 1}), Shape{z.dim(0), z.dim(1), z.dim(2)}) : z;
}

// exp(sign 2 pi i j k / n) for j < 16, k < n / 16: (2, 16, n / 16).
Tensor root_table(const Tensor& like, int64_t n, double sign) {
  const Shape grid{2, 16, n / 16};
  const Roots w = roots(exponents(grid, 1, 2, like.device()), n, sign, like.dtype());
  return where(positions(grid, 0, like.device()) == 0, w.real, w.imaginary);
}

// By one launch: rows are (B, n, T) with T beside B.
Tensor in_rows(const Tensor& x, const Problem& p) {
  const int64_t batch = x.dim(0), n = x.dim(1), tail = x.dim(2);
  const auto ordered = [](const Tensor& t, bool real) {
    return permute(t, real ? std::vector<int>{0, 2, 1} : std::vector<int>{0, 2, 1, 3});
  };
  const Shape flat = p.real_in ? Shape{batch * tail, n} : Shape{batch * tail, n, 2},
              made = p.real_out ? Shape{batch, tail, p.keep} : Shape{batch, tail, p.keep, 2};
  const Tensor y = build::fft_rows(reshape(ordered(x, p.real_in), flat),
                                   {n, n, p.keep, p.kind.sign, p.kind.scale, p.real_in, p.real_out}, root_table);
  return ordered(reshape(y, made), p.real_out);
}

Tensor transform(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1);
  if (build::takes_fft_rows(x, n)) return in_rows(x, p);
  for (int64_t m = build::longest_fft_row; m >= build::shortest_fft_row; m /= 2) {  // one factor, and rows
    if (n % m == 0 && n / m <= largest_prime && build::takes_fft_rows(x, m)) return factored(x, p, n / m);
  }
  const std::vector<int64_t>& factors = factors_of(n);
  if (factors.empty()) return convolved(x, p);
  return factors.size() == 1 ? single(x, p) : factored(x, p, factors[0]);
}

// ---- checks and axes
void check_pairs(const char* op, const Tensor& z, int least = 1) {
  if (z.rank() < least + 1 || z.dim(-1) != 2) {
    throw ShapeError(
        fmt::format("[{}] a complex tensor ends in an axis of 2 (real, imaginary){}; got {}; complex_pair() makes one",
                    op, least > 0 ? " behind those of the transform" : "", z.shape().str()));
  }
}

double scale_of(FftNorm norm, int64_t n, bool inverse) {
  const double size = static_cast<double>(n);
  if (norm == FftNorm::ortho) return 1 / std::sqrt(size);
  return (norm == FftNorm::backward) == inverse ? 1 / size : 1;
}

// x with the axis cut or padded to n.
Tensor resized(const Tensor& x, int at, int64_t n) {
  if (x.dim(at) == n) return x;
  if (x.dim(at) > n) return slice(x, at, {.start = 0, .stop = n});
  std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(x.rank()), {0, 0});
  amounts[static_cast<size_t>(at)].second = n - x.dim(at);
  return pad(x, amounts);
}

void check_length(const char* op, int64_t n) {
  if (n < 1 || n > INT32_MAX / 64)
    throw ValueError(fmt::format("[{}] the length is {}; it must be in [1, 2^25)", op, n));
}

enum class Reals { none, in, out };

// Along axis `at` of x (pairs unless the input is real), to `keep` elements.
Tensor along(const Tensor& x, int at, const Problem& p) {
  const int rank = p.real_in ? x.rank() : x.rank() - 1;
  const int64_t n = x.dim(at), outer = product(x.shape(), 0, at), tail = product(x.shape(), at + 1, rank);
  Shape shape = x.shape().with(at, p.keep);
  if (p.real_in && !p.real_out) shape.push_back(2);
  if (!p.real_in && p.real_out) shape = shape.without(rank);
  if (shape.numel() == 0) return zeros(shape, x.dtype(), &x.device());
  Shape flat{outer, n, tail};
  if (!p.real_in) flat.push_back(2);
  return reshape(transform(reshape(x, flat), p), shape);
}

// One transform with its checks. `inverse` says the sign.
Tensor one_axis(const char* op, const Tensor& given, const FftOptions& how, bool inverse, Reals reals) {
  if (reals != Reals::in) check_pairs(op, given);
  if (given.rank() == 0) throw ShapeError(fmt::format("[{}] a scalar has no axis to transform; reshape it to (1)", op));
  const Tensor in = build::as_float(given), x = build::widen(in);
  const int rank = reals == Reals::in ? x.rank() : x.rank() - 1, at = normalize_axis(how.axis, rank, op);
  const int64_t length = x.dim(at), n = how.n.value_or(reals == Reals::out ? 2 * (length - 1) : length);
  check_length(op, n);
  const double scale = scale_of(how.norm, n, inverse), sign = inverse ? 1 : -1;
  if (reals != Reals::out)
    return cast(
        along(resized(x, at, n), at, {{sign, scale}, reals == Reals::in ? n / 2 + 1 : n, reals == Reals::in, false}),
        in.dtype());
  // The other half is the conjugate of this one: what is in between counts twice, and the result's real part is all of
  // it.
  const Tensor half = resized(x, at, n / 2 + 1);
  const Tensor place = positions(half.shape(), at, x.device());
  const Tensor twice = place > 0 && place < static_cast<double>((n + 1) / 2);
  return cast(along(resized(where(twice, 2 * half, half), at, n), at, {{sign, scale}, n, false, true}), in.dtype());
}

// ---- several axes
struct Axis {
  int at = 0;
  std::optional<int64_t> n;
};
std::vector<Axis> axes_of(const char* op, const Tensor& x, const FftNOptions& how, bool two, bool real_in) {
  if (!real_in) check_pairs(op, x, two ? 2 : 1);
  const int rank = real_in ? x.rank() : x.rank() - 1;
  std::vector<int> axes = how.axes;
  if (axes.empty()) {
    const int count = two ? 2 : how.sizes.empty() ? rank : static_cast<int>(how.sizes.size());
    if (count > rank || count < 1)
      throw ShapeError(fmt::format("[{}] {} axes are transformed, but x {} has {}", op, count, x.shape().str(), rank));
    for (int i = rank - count; i < rank; ++i) axes.push_back(i);
  }
  if (!how.sizes.empty() && how.sizes.size() != axes.size())
    throw ValueError(fmt::format("[{}] {} sizes for {} axes", op, how.sizes.size(), axes.size()));
  std::vector<Axis> result;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int at = normalize_axis(axes[i], rank, op);
    if (std::any_of(result.begin(), result.end(), [&](const Axis& a) { return a.at == at; }))
      throw ValueError(fmt::format("[{}] axis {} is named twice", op, at));
    result.push_back({at, how.sizes.empty() ? std::nullopt : std::optional(how.sizes[i])});
  }
  return result;
}

// Real results last, real inputs first: one of them is the last of the axes.
Tensor several(const char* op, const Tensor& x, const FftNOptions& how, bool two, bool inverse, Reals reals) {
  if (is_half(x.dtype())) return cast(several(op, build::widen(x), how, two, inverse, reals), x.dtype());
  const std::vector<Axis> axes = axes_of(op, x, how, two, reals == Reals::in);
  const auto step = [&](const Tensor& y, const Axis& a, Reals kind) {
    return one_axis(op, y, {.n = a.n, .axis = a.at, .norm = how.norm}, inverse, kind);
  };
  Tensor y = reals == Reals::in ? step(x, axes.back(), Reals::in) : x;
  const size_t complex = reals == Reals::none ? axes.size() : axes.size() - 1;
  for (size_t i = 0; i < complex; ++i) y = step(y, axes[i], Reals::none);
  return reals == Reals::out ? step(y, axes.back(), Reals::out) : y;
}

Tensor part(const char* op, const Tensor& z, int k) {
  check_pairs(op, z, 0);
  return squeeze(slice(z, -1, {.start = k, .stop = k + 1}), -1);
}

Tensor shifted(const char* op, const Tensor& x, std::vector<int> axes, bool back) {
  if (axes.empty()) {
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  std::vector<int64_t> shifts;
  for (int& axis : axes) {
    axis = normalize_axis(axis, x.rank(), op);
    shifts.push_back(back ? -(x.dim(axis) / 2) : x.dim(axis) / 2);
  }
  return axes.empty() ? x : roll(x, shifts, axes);
}

}  // namespace

Tensor complex_pair(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  build::check_device(a.tensor, b, "complex_pair");
  const Shape shape = broadcast_shapes(a.tensor.shape(), b.shape(), "complex_pair");
  build::check_dims("complex_pair", shape.rank() + 1);
  const DType common = promote(a.tensor.dtype(), b.dtype()), t = is_float(common) ? common : DType::f32;
  return concat(
      {unsqueeze(build::broadcast(cast(a.tensor, t), shape), -1), unsqueeze(build::broadcast(cast(b, t), shape), -1)},
      -1);
}
Tensor real_part(TensorArg z) {
  const CallerScope scope(z.caller);
  return part("real_part", z.tensor, 0);
}
Tensor imaginary_part(TensorArg z) {
  const CallerScope scope(z.caller);
  return part("imaginary_part", z.tensor, 1);
}
Tensor complex_conj(TensorArg z) {
  const CallerScope scope(z.caller);
  check_pairs("complex_conj", z.tensor, 0);
  return where(positions(z.tensor.shape(), z.tensor.rank() - 1, z.tensor.device()) == 1, -z.tensor, z.tensor);
}
Tensor complex_mul(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  check_pairs("complex_mul", a.tensor, 0);
  check_pairs("complex_mul", b, 0);
  build::check_device(a.tensor, b, "complex_mul");
  broadcast_shapes(a.tensor.shape(), b.shape(), "complex_mul");
  const Tensor x = part("complex_mul", b, 0), y = part("complex_mul", b, 1);
  return a.tensor * unsqueeze(x, -1) + turned(build::as_float(a.tensor)) * unsqueeze(y, -1);
}
Tensor complex_abs(TensorArg z) {
  const CallerScope scope(z.caller);
  const Tensor x = abs(part("complex_abs", build::as_float(z.tensor), 0)),
               y = abs(part("complex_abs", build::as_float(z.tensor), 1));
  const Tensor high = maximum(x, y), none = high == 0, safe = stop_gradient(where(none || isinf(high), 1, high));
  const Tensor a = where(none, 1, x / safe), b = y / safe;  // the square root of 0 has no slope
  return where(none, 0, safe * sqrt(a * a + b * b));
}
Tensor complex_angle(TensorArg z) {
  const CallerScope scope(z.caller);
  return atan2(part("complex_angle", z.tensor, 1), part("complex_angle", z.tensor, 0));
}
Tensor polar(TensorArg size, const Tensor& angle) {
  const CallerScope scope(size.caller);
  build::check_device(size.tensor, angle, "polar");
  broadcast_shapes(size.tensor.shape(), angle.shape(), "polar");
  return complex_pair(size.tensor * cos(angle), size.tensor * sin(angle));
}

#define HEDDLE_FFT(name, inverse, reals)                               \
  Tensor name(const Tensor& x, const FftOptions& how, Caller caller) { \
    const CallerScope scope(caller);                                   \
    return one_axis(#name, x, how, inverse, reals);                    \
  }
HEDDLE_FFT(fft, false, Reals::none)
HEDDLE_FFT(ifft, true, Reals::none)
HEDDLE_FFT(rfft, false, Reals::in)
HEDDLE_FFT(irfft, true, Reals::out)
HEDDLE_FFT(hfft, false, Reals::out)
HEDDLE_FFT(ihfft, true, Reals::in)
#undef HEDDLE_FFT

#define HEDDLE_FFTN(name, two, inverse, reals)                          \
  Tensor name(const Tensor& x, const FftNOptions& how, Caller caller) { \
    const CallerScope scope(caller);                                    \
    return several(#name, x, how, two, inverse, reals);                 \
  }
HEDDLE_FFTN(fft2, true, false, Reals::none)
HEDDLE_FFTN(ifft2, true, true, Reals::none)
HEDDLE_FFTN(rfft2, true, false, Reals::in)
HEDDLE_FFTN(irfft2, true, true, Reals::out)
HEDDLE_FFTN(fftn, false, false, Reals::none)
HEDDLE_FFTN(ifftn, false, true, Reals::none)
HEDDLE_FFTN(rfftn, false, false, Reals::in)
HEDDLE_FFTN(irfftn, false, true, Reals::out)
#undef HEDDLE_FFTN

Tensor fftfreq(int64_t n, double spacing, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  check_length("fftfreq", n);
  const Tensor k = positions(Shape{n}, 0, build::device_of(device));
  return cast(where(k < static_cast<double>((n + 1) / 2), k, k - static_cast<double>(n)), DType::f32) *
         (1 / (static_cast<double>(n) * spacing));
}
Tensor rfftfreq(int64_t n, double spacing, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  check_length("rfftfreq", n);
  return cast(positions(Shape{n / 2 + 1}, 0, build::device_of(device)), DType::f32) *
         (1 / (static_cast<double>(n) * spacing));
}
Tensor fftshift(const Tensor& x, std::vector<int> axes, Caller caller) {
  const CallerScope scope(caller);
  return shifted("fftshift", x, std::move(axes), false);
}
Tensor ifftshift(const Tensor& x, std::vector<int> axes, Caller caller) {
  const CallerScope scope(caller);
  return shifted("ifftshift", x, std::move(axes), true);
}

}  // namespace heddle
