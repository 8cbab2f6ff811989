// Builders of spectral.inc.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

Type window_type(const Call& c) { return static_cast<Type>(c.integer("output_datatype", 1)); }

// a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n), computed on the host: the length is known there.
void cosine_window(Call& c, double a0, double a1, double a2) {
  const int64_t n = c.whole(0);
  if (n < 0) c.fail("the length is negative");
  if (n > (int64_t{1} << 24)) c.unsupported("a window of so many elements");
  const auto period = static_cast<double>(c.integer("periodic", 1) != 0 ? n : n - 1);
  std::vector<double> values;
  for (int64_t k = 0; k < n; ++k) {
    const double angle = period == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(k) / period;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  c.out(c.constant(HostTensor::of_reals(window_type(c), Shape{n}, values)), window_type(c));
}

// Complex pairs of (..., n, 1) or (..., n, 2).
Tensor pairs(const Tensor& x) { return x.dim(-1) == 2 ? x : complex_pair(squeeze(x, -1), zeros_like(squeeze(x, -1))); }

}  // namespace

void hann(Call& c) { cosine_window(c, 0.5, 0.5, 0); }
void hamming(Call& c) { cosine_window(c, 25.0 / 46, 1 - 25.0 / 46, 0); }
void blackman(Call& c) { cosine_window(c, 0.42, 0.5, 0.08); }

void dft(Call& c) {
  Tensor x = c.tensor(0);
  if (x.rank() < 2 || (x.dim(-1) != 1 && x.dim(-1) != 2))
    c.fail("takes real or complex numbers in a last axis of 1 or 2");
  const int64_t written = c.opset() < 20 ? c.integer("axis", 1) : c.given(2) ? c.whole(2) : -2;
  const int axis = c.axis(written, x.rank());
  if (axis == x.rank() - 1) c.fail("the last axis holds the parts of complex numbers");
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  FftOptions options;
  options.axis = axis;
  if (c.given(1)) options.n = c.whole(1);
  if (inverse && onesided) {
    const int64_t n = options.n ? *options.n : 2 * (x.dim(axis) - 1);
    options.n = n;
    return c.out(unsqueeze(irfft(pairs(x), options), -1), c.type(0));
  }
  const Tensor z = inverse ? ifft(pairs(x), options) : fft(pairs(x), options);
  c.out(onesided ? narrow(z, axis, 0, z.dim(axis) / 2 + 1) : z, c.type(0));
}

void stft(Call& c) {
  const Tensor x = c.tensor(0);
  if (x.rank() < 2) c.fail("takes (B, T, 1)");
  const Tensor signal = x.rank() == 3 && x.dim(2) == 1 ? squeeze(x, 2) : x;
  if (signal.rank() != 2) c.unsupported("complex signals");
  const int64_t hop = c.whole(1);
  int64_t length = 0;
  if (c.given(3)) length = c.whole(3);
  if (!c.given(3) && c.given(2)) length = c.shape(2).numel();
  if (length < 1 || hop < 1 || length > signal.dim(1)) c.fail("frame_length and frame_step do not fit the signal");
  Tensor frames = sliding_window(signal, 1, length, hop);  // (B, frames, length)
  if (c.given(2)) frames = frames * c.tensor(2);
  const bool onesided = c.integer("onesided", 1) != 0;
  c.out(onesided ? rfft(frames) : fft(pairs(unsqueeze(frames, -1))), c.type(0));
}

// Triangles between frequencies at equal distances on the mel scale.
void mel_weights(Call& c) {
  const int64_t bins = c.whole(0), length = c.whole(1), rate = c.whole(2);
  const double low = c.numbers(3).at(0), high = c.numbers(4).at(0);
  if (bins < 1 || length < 1 || rate < 1 || bins > 65536 || length > (1 << 24))
    c.fail("sizes must be positive, and not huge");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const int64_t rows = length / 2 + 1;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
    places.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  std::vector<double> weights(static_cast<size_t>(rows * bins), 0);
  const auto at = [&](int64_t row, int64_t bin) -> double& { return weights[static_cast<size_t>(row * bins + bin)]; };
  for (int64_t bin = 0; bin < bins; ++bin) {
    const int64_t left = places[static_cast<size_t>(bin)], centre = places[static_cast<size_t>(bin + 1)],
                  right = places[static_cast<size_t>(bin + 2)];
    if (centre == left && centre < rows && centre >= 0) at(centre, bin) = 1;
    for (int64_t row = std::max<int64_t>(left, 0); row <= centre && row < rows && centre != left; ++row)
      at(row, bin) = static_cast<double>(row - left) / static_cast<double>(centre - left);
    for (int64_t row = std::max<int64_t>(centre, 0); row < right && row < rows && right != centre; ++row)
      at(row, bin) = static_cast<double>(right - row) / static_cast<double>(right - centre);
  }
  const Type type = window_type(c);
  c.out(c.constant(HostTensor::of_reals(type, Shape{rows, bins}, weights)), type);
}

// How often each listed run of integers occurs in each row, with gaps up to a limit between its members.
void tf_idf(Call& c) {
  const bool row_alone = c.rank(0) == 1;
  const Tensor x = heddle::cast(row_alone ? unsqueeze(c.tensor(0), 0) : c.tensor(0), DType::i64);
  const std::vector<int64_t> starts = c.integers("ngram_counts"), outputs = c.integers("ngram_indexes"),
                             pool = c.integers("pool_int64s");
  const int64_t least = c.integer("min_gram_length"), most = c.integer("max_gram_length"),
                skips = c.integer("max_skip_count");
  int64_t width = 0;
  for (const int64_t index : outputs) width = std::max(width, index + 1);
  if (x.rank() != 2 || least < 1 || most > static_cast<int64_t>(starts.size()) || skips < 0 || width > (1 << 24))
    c.fail("has other lengths than lists");
  const std::vector<double> weights = c.reals("weights");
  std::vector<Tensor> columns(static_cast<size_t>(width));
  size_t gram = 0;
  for (int64_t n = 1; n <= static_cast<int64_t>(starts.size()); ++n) {
    const int64_t from = starts[static_cast<size_t>(n - 1)];
    const int64_t to =
        n < static_cast<int64_t>(starts.size()) ? starts[static_cast<size_t>(n)] : static_cast<int64_t>(pool.size());
    if (from < 0 || to > static_cast<int64_t>(pool.size())) c.fail("ngram_counts leaves the pool");
    for (int64_t at = from; at + n <= to; at += n, ++gram) {
      if (n < least || n > most) continue;
      if (gram >= outputs.size() || outputs[gram] < 0) c.fail("ngram_indexes is too short");
      Tensor count;
      for (int64_t gap = 1; gap <= (n == 1 ? 1 : skips + 1); ++gap) {
        const int64_t places = x.dim(1) - (n - 1) * gap;
        if (places < 1) break;
        Tensor match;
        for (int64_t k = 0; k < n; ++k) {
          const Tensor same =
              heddle::eq(narrow(x, 1, k * gap, places), number(c, Type::i64, pool[static_cast<size_t>(at + k)]));
          match = match.defined() ? heddle::logical_and(match, same) : same;
        }
        const Tensor here = heddle::sum(heddle::cast(match, DType::f32), {1});
        count = count.defined() ? count + here : here;
      }
      if (!count.defined()) count = zeros(Shape{x.dim(0)}, DType::f32, &c.device());
      const double weight = gram < weights.size() ? weights[gram] : 1;
      const std::string mode = c.text("mode");
      if (mode == "IDF") count = heddle::cast(count > 0.0, DType::f32);
      if (mode != "TF") count = count * weight;
      Tensor& column = columns[static_cast<size_t>(outputs[gram])];
      column = column.defined() ? column + count : count;
    }
  }
  for (Tensor& column : columns) {
    if (!column.defined()) column = zeros(Shape{x.dim(0)}, DType::f32, &c.device());
  }
  const Tensor y = heddle::stack(columns, 1);
  c.out(row_alone ? squeeze(y, 0) : y);
}

}  // namespace heddle::onnx::build
