// Image transforms against plain formulas, and their errors.
#include "heddle/data/transforms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/resample.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Array;
using data::Random;
using data::Sample;
using test::contains;
using test::thrown_text;

// Pixel k of a channel is 100 c + k, behind it a label.
Sample numbered(int64_t channels, int64_t height, int64_t width) {
  std::vector<float> pixels;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t k = 0; k < height * width; ++k) pixels.push_back(static_cast<float>(100 * c + k));
  }
  return {Array::of(pixels, Shape{channels, height, width}), Array::scalar(7)};
}
std::vector<float> values(const Sample& s) {
  const auto v = s[0].as<float>();
  return {v.begin(), v.end()};
}
Sample run(const data::Transform& t, Sample s, uint64_t index = 0) {
  Random random(1, 0, index);
  Sample out = t(std::move(s), random);
  EXPECT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].as<int32_t>()[0], 7);
  return out;
}

TEST(Transforms, ToFloatAndNormalise) {
  const Sample bytes = {Array::of(std::vector<uint8_t>{0, 51, 255, 102}, Shape{2, 1, 2}), Array::scalar(7)};
  const Sample f = run(data::to_float(), bytes);
  EXPECT_EQ(values(f), (std::vector<float>{0, 0.2f, 1, 0.4f}));
  const std::vector<float> n = values(run(data::normalise({0.2, 0.5}, {0.5, 0.25}), f));
  EXPECT_FLOAT_EQ(n[0], -0.4f);
  EXPECT_FLOAT_EQ(n[2], 2);
  EXPECT_TRUE(contains(thrown_text<DTypeError>([&] {
                         run(data::normalise({0.2, 0.5}, {0.5, 0.25}), bytes);
                       }),
                       "to_float()"));
  EXPECT_TRUE(
      contains(thrown_text<ShapeError>([&] { run(data::normalise({0.2}, {0.5}), f); }), "2 channels, but 1 means"));
}

// The same as the tensor function, whose values are PyTorch's.
TEST(Transforms, ResizeIsBilinear) {
  const Sample image = numbered(2, 5, 7);
  for (const auto& [h, w] : std::vector<std::pair<int64_t, int64_t>>{{10, 7}, {3, 4}, {1, 1}, {5, 7}, {8, 20}}) {
    const Sample out = run(data::resize(h, w), image);
    EXPECT_EQ(out[0].shape, (Shape{2, h, w}));
    const Tensor x = Tensor::from_vector(values(image), Shape{1, 2, 5, 7}, &device("reference:0"));
    const std::vector<double> expected = interpolate(x, {.size = {h, w}, .mode = Interpolation::linear}).to_doubles();
    const std::vector<float> found = values(out);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << h << " x " << w << ", " << i;
  }
}

// Against the integral of a triangle over the pixels, in double precision; where an image becomes larger the same as
// resize().
TEST(Transforms, SmallerImagesAreSmoothed) {
  const Array image = numbered(2, 12, 9)[0];
  for (const auto& [h, w] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 3}, {5, 4}, {1, 1}, {12, 9}, {20, 30}, {3, 30}}) {
    const Array out = data::resampled(image, h, w);
    ASSERT_EQ(out.shape, (Shape{2, h, w}));
    const auto weight = [](int64_t from, int64_t to, int64_t i, int64_t at) {
      const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, scale);
      const auto triangle = [&](int64_t k) {
        return std::max(0.0,
                        1 - std::abs(static_cast<double>(k) + 0.5 - (static_cast<double>(i) + 0.5) * scale) / reach);
      };
      double sum = 0;
      for (int64_t k = 0; k < from; ++k) sum += triangle(k);
      return triangle(at) / sum;
    };
    for (int64_t c = 0, index = 0; c < 2; ++c) {
      for (int64_t y = 0; y < h; ++y) {
        for (int64_t x = 0; x < w; ++x, ++index) {
          double expected = 0;
          for (int64_t k = 0; k < 12 * 9; ++k)
            expected += weight(12, h, y, k / 9) * weight(9, w, x, k % 9) * static_cast<double>(100 * c + k);
          EXPECT_NEAR(out.as<float>()[static_cast<size_t>(index)], expected, 1e-3) << h << " x " << w;
        }
      }
    }
  }
  const std::vector<float> larger = values(run(data::resize(20, 30), numbered(2, 12, 9)));
  const Array same = data::resampled(image, 20, 30);
  for (size_t i = 0; i < larger.size(); ++i) EXPECT_NEAR(same.as<float>()[i], larger[i], 1e-3);
  std::vector<uint8_t> bytes(64);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i / 8 % 2 == i % 2 ? 255 : 0;  // a board of squares becomes grey
  const Array grey = data::resampled(Array::of(bytes, {1, 8, 8}), 2, 2);
  for (const uint8_t pixel : grey.as<uint8_t>()) EXPECT_NEAR(pixel, 128, 1);
}

TEST(Transforms, CentreSquare) {
  const Sample image = numbered(1, 4, 6);
  EXPECT_EQ(values(run(data::centre_square(4), image)), values(run(data::centre_crop(4, 4), image)));
  EXPECT_EQ(values(run(data::centre_square(2, 0.5), image)), values(run(data::centre_crop(2, 2), image)));
  EXPECT_NEAR(values(run(data::centre_square(1), image)).at(0), 11.5f, 1e-5);
  EXPECT_EQ(run(data::centre_square(3, 0.01), image)[0].shape, (Shape{1, 3, 3}));
  EXPECT_EQ(values(run(data::parse_transform("centre_square 2 0.5"), image)),
            values(run(data::centre_square(2, 0.5), image)));
  for (const double share : {0.0, 1.1, -1.0, std::nan("")})
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::centre_square(2, share); }), "the share of the shorter"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::centre_square(0); }), "expected 1 to 2^28"));
}

TEST(Transforms, Crops) {
  const Sample image = numbered(2, 4, 5);
  EXPECT_EQ(values(run(data::centre_crop(2, 3), image)),
            (std::vector<float>{6, 7, 8, 11, 12, 13, 106, 107, 108, 111, 112, 113}));
  std::set<std::vector<float>> seen;
  for (uint64_t i = 0; i < 200; ++i) {
    const Sample crop = run(data::random_crop(4, 5, 1), image, i);
    EXPECT_EQ(crop[0].shape, (Shape{2, 4, 5}));
    seen.insert(values(crop));
  }
  EXPECT_EQ(seen.size(), 9u);  // all places, and no others
  EXPECT_TRUE(seen.contains(values(image)));
  for (uint64_t i = 0; i < 50; ++i) {
    const std::vector<float> part = values(run(data::random_resized_crop(3, 3), image, i));
    EXPECT_LE(*std::max_element(part.begin(), part.begin() + 9), 19);
    EXPECT_TRUE(std::is_sorted(part.begin(), part.begin() + 3));
  }
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] { run(data::centre_crop(5, 5), image); }), "smaller than 5 x 5"));
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] { run(data::random_crop(7, 5, 1), image); }), "with padding 1"));
}

TEST(Transforms, FlipsHalfOfTheImages) {
  const Sample image = numbered(1, 2, 3);
  int flipped = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::vector<float> v = values(run(data::random_flip(), image, i));
    if (v == std::vector<float>{2, 1, 0, 5, 4, 3})
      ++flipped;
    else
      EXPECT_EQ(v, values(image));
  }
  EXPECT_NEAR(flipped, 500, 64);  // four standard deviations
}

TEST(Transforms, ColoursStayInRangeAndGreyStaysGrey) {
  Sample grey = {Array::of(std::vector<float>{0.2f, 0.6f, 0.2f, 0.6f, 0.2f, 0.6f}, Shape{3, 1, 2}), Array::scalar(7)};
  for (uint64_t i = 0; i < 50; ++i) {
    const std::vector<float> v = values(run(data::random_colour(0.8, 0.5, 1), grey, i));
    for (const float x : v) EXPECT_TRUE(x >= 0 && x <= 1);
    EXPECT_NEAR(v[0], v[2], 1e-6);
    EXPECT_NEAR(v[1], v[5], 1e-6);
  }
  EXPECT_EQ(values(run(data::random_colour(0), grey)), values(grey));
}

TEST(Transforms, CutoutClearsASquare) {
  for (uint64_t i = 0; i < 100; ++i) {
    const std::vector<float> v = values(
        run(data::cutout(3), {Array::of(std::vector<float>(2 * 5 * 6, 1.0f), Shape{2, 5, 6}), Array::scalar(7)}, i));
    const auto zeros = std::count(v.begin(), v.end(), 0.0f);
    EXPECT_TRUE(zeros == 18 || zeros == 12 || zeros == 8) << zeros;
    EXPECT_TRUE(std::equal(v.begin(), v.begin() + 30, v.begin() + 30));
  }
}

TEST(Transforms, ByName) {
  const Sample image = numbered(1, 4, 4);
  EXPECT_EQ(values(run(data::parse_transform("centre_crop 2 2"), image)), (std::vector<float>{5, 6, 9, 10}));
  EXPECT_EQ(values(run(data::parse_transform("normalise 1 2"), image))[3], 1);
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::parse_transform("rotate 3"); }),
                       "unknown transform 'rotate'; known: centre_crop"));
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([] { data::parse_transform("resize 3"); }), "has 1 numbers, expected 2 to 2"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::parse_transform("resize 3 x"); }), "'x'"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::parse_transform("resize 3 2.5"); }), "2.5"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::resize(0, 3); }), "0 x 3"));
}

TEST(Transforms, Statistics) {
  const auto set = data::generated(3, [](int64_t i, Random&) {
    return Sample{Array::of(std::vector<uint8_t>{0, static_cast<uint8_t>(51 * i), 255, 255}, Shape{2, 1, 2})};
  });
  const data::Statistics s = data::channel_statistics(*set);
  EXPECT_NEAR(s.mean[0], 0.1, 1e-7);
  EXPECT_NEAR(s.deviation[0], std::sqrt((0.04 + 0.16) / 6 - 0.01), 1e-7);
  EXPECT_NEAR(s.mean[1], 1, 1e-7);
  EXPECT_NEAR(s.deviation[1], 0, 1e-7);
}

}  // namespace
}  // namespace heddle
