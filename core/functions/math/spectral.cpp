// Windows and short-time Fourier transforms.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/complex.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/fft.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/padding.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {
namespace {

void check_window(const char* op, int64_t n) {
  if (n < 1) throw ValueError(fmt::format("[{}] the length is {}; it must be at least 1", op, n));
}

// Sum of a_k cos(2 pi k j / m), m = n or n - 1.
Tensor cosines(const char* op, int64_t n, bool periodic, std::vector<double> weights, DeviceContext* device) {
  check_window(op, n);
  DeviceContext& where_to = build::device_of(device);
  if (n == 1) return ones(Shape{1}, DType::f32, &where_to);
  const double step = 2 * std::numbers::pi / static_cast<double>(periodic ? n : n - 1);
  const Tensor j = cast(build::positions(Shape{n}, 0, where_to), DType::f32);
  Tensor window = full_like(j, weights[0]);
  for (size_t k = 1; k < weights.size(); ++k) window = window + weights[k] * cos(j * (static_cast<double>(k) * step));
  return window;
}

struct Frames {
  int64_t n = 0, hop = 0, length = 0;
  Tensor window;  // (n), undefined: ones
};

Frames frames_of(const char* op, const Tensor& x, int64_t n, const StftOptions& how) {
  if (n < 1 || n > INT32_MAX / 64) throw ValueError(fmt::format("[{}] n is {}; it must be in [1, 2^25)", op, n));
  Frames f{n, how.hop.value_or(std::max<int64_t>(1, n / 4)), how.length.value_or(n), {}};
  if (f.hop < 1 || f.hop > INT32_MAX)
    throw ValueError(fmt::format("[{}] hop is {}; it must be in [1, 2^31)", op, f.hop));
  if (f.length < 1 || f.length > n)
    throw ValueError(fmt::format("[{}] the window's length is {}; it must be in [1, {}]", op, f.length, n));
  if (how.window.defined()) {
    build::check_device(x, how.window, op);
    if (how.window.shape() != Shape{f.length})
      throw ShapeError(fmt::format("[{}] window is {}; expected ({})", op, how.window.shape().str(), f.length));
  }
  const bool plain = !how.window.defined() && f.length == n;
  if (!plain) {
    const Tensor window = how.window.defined() ? build::widen(build::as_float(how.window))
                                               : ones(Shape{f.length}, DType::f32, &x.device());
    const int64_t left = (n - f.length) / 2;
    f.window = cast(f.length == n ? window : pad(window, {{left, n - f.length - left}}),
                    build::widen(build::as_float(x)).dtype());
  }
  return f;
}

}  // namespace

Tensor hann_window(int64_t n, bool periodic, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  return cosines("hann_window", n, periodic, {0.5, -0.5}, device);
}
Tensor hamming_window(int64_t n, bool periodic, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  return cosines("hamming_window", n, periodic, {0.54, -0.46}, device);
}
Tensor blackman_window(int64_t n, bool periodic, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  return cosines("blackman_window", n, periodic, {0.42, -0.5, 0.08}, device);
}
Tensor bartlett_window(int64_t n, bool periodic, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  check_window("bartlett_window", n);
  DeviceContext& where_to = build::device_of(device);
  if (n == 1) return ones(Shape{1}, DType::f32, &where_to);
  const double m = static_cast<double>(periodic ? n : n - 1);
  return 1 - abs(cast(build::positions(Shape{n}, 0, where_to), DType::f32) * (2 / m) - 1);
}

Tensor stft(const Tensor& given, int64_t n, const StftOptions& how, Caller caller) {
  const CallerScope scope(caller);
  if (given.rank() < 1 || given.rank() > 2)
    throw ShapeError(fmt::format("[stft] x is {}; expected (samples) or (B, samples)", given.shape().str()));
  const Tensor in = build::as_float(given);
  Tensor x = build::widen(in);
  const Frames f = frames_of("stft", given, n, how);
  if (how.center) {
    std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(x.rank()), {0, 0});
    amounts.back() = {n / 2, n / 2};
    x = pad(x, amounts, PadMode::reflect);
  }
  if (x.dim(-1) < n)
    throw ShapeError(fmt::format("[stft] windows of {} samples are longer than the signal, {}", n, x.shape().str()));
  Tensor parts = sliding_window(x, -1, n, f.hop);  // (..., frames, n)
  if (f.window.defined()) parts = parts * f.window;
  const FftNorm norm = how.normalized ? FftNorm::ortho : FftNorm::backward;
  const Tensor spectra =
      how.onesided ? rfft(parts, {.norm = norm}) : fft(complex_pair(parts, zeros_like(parts)), {.norm = norm});
  return cast(transpose(spectra, -3, -2), in.dtype());
}

Tensor istft(const Tensor& given, int64_t n, const StftOptions& how, std::optional<int64_t> samples, Caller caller) {
  const CallerScope scope(caller);
  const int64_t frequencies = how.onesided ? n / 2 + 1 : n;
  if (given.rank() < 3 || given.rank() > 4 || given.dim(-1) != 2 || given.dim(-3) != frequencies || given.dim(-2) < 1) {
    throw ShapeError(fmt::format(
        "[istft] z is {}; expected (frequencies, frames, 2), perhaps behind a batch, with {} frequencies for n = {}",
        given.shape().str(), frequencies, n));
  }
  const Tensor in = build::as_float(given);
  const Tensor z =
      transpose(slice(build::widen(in), -3, {.start = 0, .stop = n / 2 + 1}), -3, -2);  // (..., frames, n / 2 + 1, 2)
  const Frames f = frames_of("istft", given, n, how);
  const FftNorm norm = how.normalized ? FftNorm::ortho : FftNorm::backward;
  const Tensor parts = irfft(z, {.n = n, .norm = norm});  // (..., frames, n)
  const Tensor window = f.window.defined() ? f.window : ones(Shape{n}, parts.dtype(), &parts.device());
  const int64_t frames = given.dim(-2), whole = n + f.hop * (frames - 1), batch = given.rank() == 4 ? given.dim(0) : 1;
  const UnfoldOptions steps{.stride = {1, f.hop}};
  const auto added = [&](const Tensor& v) {  // (B, frames, n) to (B, whole)
    return reshape(fold(transpose(v, 1, 2), {1, whole}, {1, n}, steps), Shape{v.dim(0), whole});
  };
  const Tensor sums = added(reshape(parts * window, Shape{batch, frames, n}));
  const Tensor weights = added(expand(reshape(window * window, Shape{1, 1, n}), Shape{1, frames, n}));
  const int64_t start = how.center ? n / 2 : 0, stop = samples      ? start + std::min(*samples, whole - start)
                                                       : how.center ? whole - n / 2
                                                                    : whole;
  if (stop <= start) throw ValueError(fmt::format("[istft] {} samples are left of {} frames", stop - start, frames));
  Tensor signal = slice(sums, 1, {.start = start, .stop = stop}) / slice(weights, 1, {.start = start, .stop = stop});
  if (samples && stop - start < *samples) signal = pad(signal, {{0, 0}, {0, *samples - (stop - start)}});
  return cast(given.rank() == 4 ? signal : reshape(signal, Shape{signal.dim(1)}), in.dtype());
}

}  // namespace heddle
