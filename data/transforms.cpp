#include "heddle/data/transforms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/data/resample.h"

namespace heddle::data {
namespace {

struct Size {
  int64_t channels, height, width;
};

Size size_of_image(const Sample& sample, const char* who) {
  if (sample.empty() || sample[0].shape.rank() != 3) {
    throw ShapeError(fmt::format("[{}] the image is {}, expected (channels, height, width)", who,
                                 sample.empty() ? "missing" : sample[0].shape.str()));
  }
  if (sample[0].dtype != DType::u8 && sample[0].dtype != DType::f32)
    throw DTypeError(fmt::format("[{}] the image is {}, expected u8 or f32", who, name_of(sample[0].dtype)));
  sample[0].require_whole(who);
  const Size size{sample[0].shape[0], sample[0].shape[1], sample[0].shape[2]};
  if (size.height == 0 || size.width == 0)
    throw ShapeError(fmt::format("[{}] the image is {}: it has no pixels", who, sample[0].shape.str()));
  return size;
}

std::span<float> floats(Sample& sample, const char* who) {
  size_of_image(sample, who);
  if (sample[0].dtype != DType::f32)
    throw DTypeError(fmt::format("[{}] the image is u8, expected f32; did you mean to_float() before it?", who));
  return sample[0].as<float>();
}

constexpr int64_t most_made_pixels = int64_t{1} << 28;

void check_size(const char* who, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > most_made_pixels / width)
    throw ValueError(fmt::format("[{}] {} x {} pixels; expected 1 to 2^28", who, height, width));
}

// A new image of which `pixel(channel, y, x)` gives each one.
template <class T, class F>
Array filled(DType dtype, const Size& size, const F& pixel) {
  Array image{dtype, Shape{size.channels, size.height, size.width},
              std::vector<std::byte>(static_cast<size_t>(size.channels * size.height * size.width) * sizeof(T))};
  const std::span<T> out = image.as<T>();
  size_t at = 0;
  for (int64_t c = 0; c < size.channels; ++c) {
    for (int64_t y = 0; y < size.height; ++y) {
      for (int64_t x = 0; x < size.width; ++x) out[at++] = pixel(c, y, x);
    }
  }
  return image;
}

// The part that begins at (top, left), zeros outside of the image.
template <class T>
Array part(const Array& image, const Size& from, int64_t top, int64_t left, int64_t height, int64_t width) {
  const std::span<const T> in = image.as<T>();
  return filled<T>(image.dtype, {from.channels, height, width}, [&](int64_t c, int64_t y, int64_t x) {
    const int64_t at_y = y + top, at_x = x + left;
    const bool inside = at_y >= 0 && at_y < from.height && at_x >= 0 && at_x < from.width;
    return inside ? in[static_cast<size_t>((c * from.height + at_y) * from.width + at_x)] : T{};
  });
}

Sample cropped(Sample sample, const Size& from, int64_t top, int64_t left, int64_t height, int64_t width) {
  const Array& image = sample[0];
  sample[0] = image.dtype == DType::u8 ? part<uint8_t>(image, from, top, left, height, width)
                                       : part<float>(image, from, top, left, height, width);
  return sample;
}

// Between which two rows (or columns) a new one lies, and how far.
struct Between {
  int64_t low, high;
  float share;
};
std::vector<Between> positions(int64_t from, int64_t to) {
  std::vector<Between> all;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double at = std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    const int64_t low = std::min(static_cast<int64_t>(at), from - 1);
    all.push_back({low, std::min(low + 1, from - 1), static_cast<float>(at - static_cast<double>(low))});
  }
  return all;
}

template <class T>
Array resized(const Array& image, const Size& from, int64_t height, int64_t width) {
  const std::vector<Between> rows = positions(from.height, height), columns = positions(from.width, width);
  const std::span<const T> in = image.as<T>();
  return filled<T>(image.dtype, {from.channels, height, width}, [&](int64_t c, int64_t y, int64_t x) {
    const Between &r = rows[static_cast<size_t>(y)], &k = columns[static_cast<size_t>(x)];
    const auto at = [&](int64_t row, int64_t column) {
      return static_cast<float>(in[static_cast<size_t>((c * from.height + row) * from.width + column)]);
    };
    const float above = at(r.low, k.low) * (1 - k.share) + at(r.low, k.high) * k.share,
                below = at(r.high, k.low) * (1 - k.share) + at(r.high, k.high) * k.share;
    const float value = above * (1 - r.share) + below * r.share;
    if constexpr (std::is_same_v<T, uint8_t>)
      return static_cast<uint8_t>(value + 0.5f);
    else
      return value;
  });
}

Sample resized(Sample sample, const Size& from, int64_t height, int64_t width) {
  const Array& image = sample[0];
  sample[0] = image.dtype == DType::u8 ? resized<uint8_t>(image, from, height, width)
                                       : resized<float>(image, from, height, width);
  return sample;
}

}  // namespace

Transform to_float() {
  return [](Sample sample, Random&) {
    size_of_image(sample, "to_float");
    if (sample[0].dtype == DType::f32) return sample;
    std::vector<float> values;
    values.reserve(sample[0].bytes.size());
    for (const uint8_t byte : sample[0].as<uint8_t>()) values.push_back(static_cast<float>(byte) / 255.0f);
    sample[0] = Array::of(values, sample[0].shape);
    return sample;
  };
}

Transform normalise(std::vector<double> mean, std::vector<double> deviation) {
  if (mean.empty() || mean.size() != deviation.size())
    throw ValueError(fmt::format("[normalise] {} means and {} deviations", mean.size(), deviation.size()));
  for (const double d : deviation) {
    if (!(d > 0)) throw ValueError(fmt::format("[normalise] a deviation is {}; it must be positive", d));
  }
  return [=](Sample sample, Random&) {
    const std::span<float> image = floats(sample, "normalise");
    const auto channels = static_cast<size_t>(sample[0].shape[0]);
    if (channels != mean.size())
      throw ShapeError(fmt::format("[normalise] {} channels, but {} means", channels, mean.size()));
    const size_t pixels = image.size() / channels;
    for (size_t i = 0; i < image.size(); ++i)
      image[i] = static_cast<float>((image[i] - mean[i / pixels]) / deviation[i / pixels]);
    return sample;
  };
}

Transform resize(int64_t height, int64_t width) {
  check_size("resize", height, width);
  return [=](Sample sample, Random&) {
    const Size from = size_of_image(sample, "resize");
    if (from.height < 1 || from.width < 1)
      throw ShapeError(fmt::format("[resize] the image is {}: empty", sample[0].shape.str()));
    return resized(std::move(sample), from, height, width);
  };
}

Transform centre_square(int64_t size, double share) {
  check_size("centre_square", size, size);
  if (!(share > 0 && share <= 1))
    throw ValueError(fmt::format("[centre_square] the share of the shorter side is {}; expected above 0 to 1", share));
  return [=](Sample sample, Random&) {
    const Size from = size_of_image(sample, "centre_square");
    const auto shorter = static_cast<double>(std::min(from.height, from.width));
    const auto side = std::max<int64_t>(1, std::llround(shorter * share));
    sample = cropped(std::move(sample), from, (from.height - side) / 2, (from.width - side) / 2, side, side);
    sample[0] = resampled(sample[0], size, size);
    return sample;
  };
}

Transform centre_crop(int64_t height, int64_t width) {
  check_size("centre_crop", height, width);
  return [=](Sample sample, Random&) {
    const Size from = size_of_image(sample, "centre_crop");
    if (from.height < height || from.width < width)
      throw ShapeError(
          fmt::format("[centre_crop] the image is {}, smaller than {} x {}", sample[0].shape.str(), height, width));
    return cropped(std::move(sample), from, (from.height - height) / 2, (from.width - width) / 2, height, width);
  };
}

Transform random_crop(int64_t height, int64_t width, int64_t padding) {
  check_size("random_crop", height, width);
  if (padding < 0 || padding > most_made_pixels)
    throw ValueError(fmt::format("[random_crop] padding is {}; expected 0 to 2^28", padding));
  return [=](Sample sample, Random& random) {
    const Size from = size_of_image(sample, "random_crop");
    const int64_t down = from.height + 2 * padding - height, right = from.width + 2 * padding - width;
    if (down < 0 || right < 0)
      throw ShapeError(fmt::format("[random_crop] the image is {}, with padding {} smaller than {} x {}",
                                   sample[0].shape.str(), padding, height, width));
    const int64_t top = random.integer(down + 1) - padding, left = random.integer(right + 1) - padding;
    return cropped(std::move(sample), from, top, left, height, width);
  };
}

Transform random_resized_crop(int64_t height, int64_t width, double least_area, double most_area, double most_ratio) {
  check_size("random_resized_crop", height, width);
  if (!(least_area > 0 && least_area <= most_area && most_area <= 1))
    throw ValueError(fmt::format("[random_resized_crop] areas from {} to {}", least_area, most_area));
  if (!(most_ratio >= 1))
    throw ValueError(fmt::format("[random_resized_crop] the ratio is {}; it must be at least 1", most_ratio));
  return [=](Sample sample, Random& random) {
    const Size from = size_of_image(sample, "random_resized_crop");
    const double area = random.uniform(static_cast<float>(least_area), static_cast<float>(most_area)) *
                        static_cast<double>(from.height * from.width);
    const double ratio = std::exp(random.uniform(-1, 1) * std::log(most_ratio));
    const int64_t h = std::clamp<int64_t>(std::llround(std::sqrt(area / ratio)), 1, from.height),
                  w = std::clamp<int64_t>(std::llround(std::sqrt(area * ratio)), 1, from.width);
    const int64_t top = random.integer(from.height - h + 1), left = random.integer(from.width - w + 1);
    sample = cropped(std::move(sample), from, top, left, h, w);
    sample[0] = resampled(sample[0], height, width);
    return sample;
  };
}

Transform random_flip(double probability) {
  if (!(probability >= 0 && probability <= 1))
    throw ValueError(fmt::format("[random_flip] the probability is {}", probability));
  return [=](Sample sample, Random& random) {
    const Size size = size_of_image(sample, "random_flip");
    if (!random.chance(probability) || size.width == 0) return sample;
    const auto flip = [&](auto pixels) {
      for (auto row = pixels.begin(); row != pixels.end(); row += size.width) std::reverse(row, row + size.width);
    };
    sample[0].dtype == DType::u8 ? flip(sample[0].as<uint8_t>()) : flip(sample[0].as<float>());
    return sample;
  };
}

Transform random_colour(double brightness, double contrast, double saturation) {
  for (const double x : {brightness, contrast, saturation}) {
    if (!(x >= 0 && x <= 1)) throw ValueError(fmt::format("[random_colour] a strength is {}; it must be in [0, 1]", x));
  }
  return [=](Sample sample, Random& random) {
    const std::span<float> image = floats(sample, "random_colour");
    const auto channels = static_cast<size_t>(sample[0].shape[0]), pixels = channels == 0 ? 0 : image.size() / channels;
    const auto factor = [&](double strength) {
      return random.uniform(static_cast<float>(1 - strength), static_cast<float>(1 + strength));
    };
    const float bright = factor(brightness), strong = factor(contrast), colourful = factor(saturation);
    const auto grey = [&](size_t i) {
      return channels == 3 ? 0.299f * image[i] + 0.587f * image[pixels + i] + 0.114f * image[2 * pixels + i] : image[i];
    };
    for (float& x : image) x *= bright;
    double mean = 0;
    for (size_t i = 0; i < pixels; ++i) mean += grey(i);
    mean /= static_cast<double>(std::max<size_t>(1, pixels));
    for (float& x : image) x = static_cast<float>(mean) + strong * (x - static_cast<float>(mean));
    for (size_t i = 0; channels == 3 && i < pixels; ++i) {
      const float level = grey(i);
      for (size_t c = 0; c < 3; ++c) image[c * pixels + i] = level + colourful * (image[c * pixels + i] - level);
    }
    for (float& x : image) x = std::clamp(x, 0.0f, 1.0f);
    return sample;
  };
}

Transform cutout(int64_t size) {
  if (size < 1) throw ValueError(fmt::format("[cutout] the size is {}", size));
  return [=](Sample sample, Random& random) {
    const Size image = size_of_image(sample, "cutout");
    const int64_t top = random.integer(image.height) - size / 2, left = random.integer(image.width) - size / 2;
    const int64_t end_y = std::min(top + size, image.height), start_x = std::max<int64_t>(left, 0),
                  end_x = std::min(left + size, image.width);
    const size_t bytes = size_of(sample[0].dtype);
    for (int64_t c = 0; c < image.channels; ++c) {
      for (int64_t y = std::max<int64_t>(top, 0); y < end_y; ++y) {
        const auto row = sample[0].bytes.begin() +
                         static_cast<std::ptrdiff_t>(static_cast<size_t>((c * image.height + y) * image.width) * bytes);
        std::fill(row + start_x * static_cast<int64_t>(bytes), row + end_x * static_cast<int64_t>(bytes), std::byte{0});
      }
    }
    return sample;
  };
}

Transform parse_transform(const std::string& text) {
  using Numbers = std::vector<double>;
  struct Known {
    size_t least, most;
    std::function<Transform(const Numbers&)> make;
  };
  const auto whole = [](const Numbers& n, size_t i, double otherwise = 0) {
    const double value = i < n.size() ? n[i] : otherwise;
    if (value != std::floor(value) || std::abs(value) > 1e9)
      throw ValueError(fmt::format("[transform] {} is no whole number of pixels", value));
    return static_cast<int64_t>(value);
  };
  const auto real = [](const Numbers& n, size_t i, double otherwise) { return i < n.size() ? n[i] : otherwise; };
  const std::map<std::string, Known> known = {
      {"to_float", {0, 0, [](const Numbers&) { return to_float(); }}},
      {"normalise",
       {2, 6,
        [](const Numbers& n) {
          const auto half = n.begin() + static_cast<std::ptrdiff_t>(n.size() / 2);
          return normalise({n.begin(), half}, {half, n.end()});
        }}},
      {"resize", {2, 2, [&](const Numbers& n) { return resize(whole(n, 0), whole(n, 1)); }}},
      {"centre_square", {1, 2, [&](const Numbers& n) { return centre_square(whole(n, 0), real(n, 1, 1)); }}},
      {"centre_crop", {2, 2, [&](const Numbers& n) { return centre_crop(whole(n, 0), whole(n, 1)); }}},
      {"random_crop", {2, 3, [&](const Numbers& n) { return random_crop(whole(n, 0), whole(n, 1), whole(n, 2)); }}},
      {"random_resized_crop",
       {2, 5,
        [&](const Numbers& n) {
          return random_resized_crop(whole(n, 0), whole(n, 1), real(n, 2, 0.08), real(n, 3, 1), real(n, 4, 4.0 / 3));
        }}},
      {"random_flip", {0, 1, [&](const Numbers& n) { return random_flip(real(n, 0, 0.5)); }}},
      {"random_colour", {1, 3, [&](const Numbers& n) { return random_colour(n[0], real(n, 1, 0), real(n, 2, 0)); }}},
      {"cutout", {1, 1, [&](const Numbers& n) { return cutout(whole(n, 0)); }}},
  };
  TextInput words(text);
  std::string name, word;
  words >> name;
  const auto found = known.find(name);
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const auto& [each, made] : known) names.push_back(each);
    throw ValueError(
        fmt::format("[transform] unknown transform '{}'; known: {}", shortened(name), fmt::join(names, ", ")));
  }
  Numbers numbers;
  while (words >> word) {
    const std::optional<double> value =
        parse_number<double>(word.starts_with('+') ? std::string_view(word).substr(1) : word);
    if (!value)
      throw ValueError(fmt::format("[transform] '{}' in '{}' is no number", shortened(word), shortened(text)));
    numbers.push_back(*value);
  }
  const Known& k = found->second;
  if (numbers.size() < k.least || numbers.size() > k.most) {
    throw ValueError(fmt::format("[transform] '{}' has {} numbers, expected {} to {}", shortened(text), numbers.size(),
                                 k.least, k.most));
  }
  return k.make(numbers);
}

Statistics channel_statistics(const Dataset& images, int64_t limit) {
  if (limit < 0) throw ValueError(fmt::format("[channel_statistics] {} examples cannot be meant", limit));
  const int64_t count = limit > 0 ? std::min(limit, images.size()) : images.size();
  if (count == 0) throw ValueError("[channel_statistics] there are no examples");
  const Transform convert = to_float();
  std::vector<double> sums, squares;
  double pixels = 0;
  for (int64_t i = 0; i < count; ++i) {
    Random random(0, 0, static_cast<uint64_t>(i));
    const Sample sample = convert(images.get(i, random), random);
    const Size size = size_of_image(sample, "channel_statistics");
    if (i == 0) sums.resize(static_cast<size_t>(size.channels)), squares.resize(sums.size());
    if (sums.size() != static_cast<size_t>(size.channels))
      throw ShapeError(
          fmt::format("[channel_statistics] example {} has {} channels, the first {}", i, size.channels, sums.size()));
    const auto plane = static_cast<size_t>(size.height * size.width);
    const std::span<const float> image = sample[0].as<float>();
    for (size_t k = 0; k < image.size(); ++k) {
      sums[k / plane] += image[k];
      squares[k / plane] += static_cast<double>(image[k]) * image[k];
    }
    pixels += static_cast<double>(plane);
  }
  Statistics s;
  for (size_t c = 0; c < sums.size(); ++c) {
    s.mean.push_back(sums[c] / pixels);
    s.deviation.push_back(std::sqrt(std::max(0.0, squares[c] / pixels - s.mean.back() * s.mean.back())));
  }
  return s;
}

}  // namespace heddle::data
