#include "heddle/data/resample.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle::data {
namespace {

// What a new pixel is made of: old ones from `first` on, by weights that add up to 1.
struct Source {
  int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Source> sources(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, scale);
  std::vector<Source> all;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - reach - 0.5)));
    const auto last = std::min<int64_t>(from - 1, static_cast<int64_t>(std::floor(centre + reach - 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t at = first; at <= last; ++at) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(at) + 0.5 - centre) / reach));
      sum += weights.back();
    }
    Source source{first, {}};
    for (const double weight : weights) source.weights.push_back(static_cast<float>(weight / sum));
    all.push_back(std::move(source));
  }
  return all;
}

// Rows of `width` in; each becomes one of columns.size().
template <class T>
std::vector<float> across(std::span<const T> in, int64_t width, const std::vector<Source>& columns) {
  const size_t rows = in.size() / static_cast<size_t>(width);
  std::vector<float> out;
  out.reserve(rows * columns.size());
  for (size_t row = 0; row < rows; ++row) {
    const T* from = in.data() + row * static_cast<size_t>(width);
    for (const Source& source : columns) {
      float sum = 0;
      for (size_t k = 0; k < source.weights.size(); ++k)
        sum += source.weights[k] * static_cast<float>(from[static_cast<size_t>(source.first) + k]);
      out.push_back(sum);
    }
  }
  return out;
}

// One channel (height, width) becomes (rows.size(), width).
void down(const float* in, size_t width, const std::vector<Source>& rows, float* out) {
  for (const Source& source : rows) {
    std::fill_n(out, width, 0.0f);
    for (size_t k = 0; k < source.weights.size(); ++k) {
      const float* from = in + (static_cast<size_t>(source.first) + k) * width;
      for (size_t x = 0; x < width; ++x) out[x] += source.weights[k] * from[x];
    }
    out += width;
  }
}

template <class T>
Array resampled_of(const Array& image, int64_t height, int64_t width) {
  const int64_t channels = image.shape[0], from_height = image.shape[1], from_width = image.shape[2];
  const std::vector<Source> rows = sources(from_height, height);
  const std::vector<float> narrow = across(image.as<T>(), from_width, sources(from_width, width));
  std::vector<float> values(static_cast<size_t>(channels * height * width));
  for (int64_t c = 0; c < channels; ++c)
    down(narrow.data() + c * from_height * width, static_cast<size_t>(width), rows, values.data() + c * height * width);
  const Shape shape{channels, height, width};
  if constexpr (std::is_same_v<T, float>) {
    return Array::of(values, shape);
  } else {
    std::vector<uint8_t> pixels;
    pixels.reserve(values.size());
    for (const float value : values) pixels.push_back(static_cast<uint8_t>(std::min(255.0f, value + 0.5f)));
    return Array::of(pixels, shape);
  }
}

}  // namespace

Array resampled(const Array& image, int64_t height, int64_t width) {
  if (image.shape[1] == height && image.shape[2] == width) return image;
  return image.dtype == DType::u8 ? resampled_of<uint8_t>(image, height, width)
                                  : resampled_of<float>(image, height, width);
}

}  // namespace heddle::data
