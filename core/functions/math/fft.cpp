// Fourier transforms: checks, lengths and axes. What computes one: fft_transform.h.
#include "heddle/core/functions/math/fft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/complex.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/fft_transform.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {
namespace {

using build::check_pairs;
using build::positions;
using build::product;
using fft_transform::Problem;
using fft_transform::transform;

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
  const Tensor half = resized(x, at, n / 2 + 1);
  const int64_t outer = product(half.shape(), 0, at), tail = product(half.shape(), at + 1, rank);
  const Shape shape = half.shape().without(rank).with(at, n);
  if (shape.numel() == 0) return zeros(shape, in.dtype(), &x.device());
  const Tensor y = fft_transform::reals_of_half(reshape(half, Shape{outer, n / 2 + 1, tail, 2}), n, {sign, scale});
  return cast(reshape(y, shape), in.dtype());
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
