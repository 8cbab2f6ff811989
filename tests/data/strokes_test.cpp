// The embedded data set: the same bytes everywhere, and neither trivial nor hopeless.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/data/datasets.h"

namespace heddle {
namespace {

using data::ImageSet;
using data::stroke_digits;

uint64_t hash_of(const ImageSet& set) {
  return hash_bytes(set.labels.data(), set.labels.size(), hash_bytes(set.pixels.data(), set.pixels.size()));
}

TEST(StrokeDigits, TheSameBytesOnEveryPlatform) {
  const data::Split split = stroke_digits(1, 500, 200);
  EXPECT_EQ(hex64(hash_of(split.train)), "322c6ce441a696ce");
  EXPECT_EQ(hex64(hash_of(split.test)), "78630d2d1634e669");
}

TEST(StrokeDigits, AnImageDoesNotDependOnHowManyThereAre) {
  const ImageSet few = stroke_digits(3, 10, 0).train, many = stroke_digits(3, 50, 0).train;
  EXPECT_TRUE(std::equal(few.pixels.begin(), few.pixels.end(), many.pixels.begin()));
  EXPECT_TRUE(std::equal(few.labels.begin(), few.labels.end(), many.labels.begin()));
}

TEST(StrokeDigits, SeedsAndSplitsDiffer) {
  const data::Split one = stroke_digits(1, 100, 100), two = stroke_digits(2, 100, 100);
  EXPECT_NE(hash_of(one.train), hash_of(two.train));
  EXPECT_NE(one.train.pixels, one.test.pixels);
}

TEST(StrokeDigits, ShapesLabelsAndInk) {
  const data::Split split = stroke_digits(1, 5000, 1);
  EXPECT_EQ(split.train.rows, 28);
  EXPECT_EQ(split.train.columns, 28);
  EXPECT_EQ(split.train.classes, 10);
  EXPECT_EQ(split.train.pixels.size(), 5000u * 784u);
  std::array<int, 10> counts{};
  for (const uint8_t label : split.train.labels) {
    ASSERT_LT(label, 10);
    ++counts[label];
  }
  for (const int count : counts) EXPECT_NEAR(count, 500, 110);  // five standard deviations
  for (size_t i = 0; i < 5000; ++i) {
    const uint8_t* image = split.train.pixels.data() + i * 784;
    const int ink = std::accumulate(image, image + 784, 0);
    EXPECT_GT(ink, 784) << "image " << i << " is empty";
    EXPECT_LT(ink, 784 * 120) << "image " << i << " is full";
  }
}

TEST(StrokeDigits, Empty) {
  EXPECT_EQ(stroke_digits(1, 0, 0).train.size(), 0);
  EXPECT_THROW(stroke_digits(1, -1, 0), ValueError);
}

// Softmax regression by stochastic gradient descent, in float on the host.
double linear_accuracy(const ImageSet& train, const ImageSet& test, int epochs) {
  constexpr size_t in = 784, out = 10;
  std::vector<float> w(in * out), b(out), x(in);
  const auto scores = [&](const ImageSet& set, size_t i) {
    std::array<float, out> y;
    std::copy(b.begin(), b.end(), y.begin());
    for (size_t p = 0; p < in; ++p) {
      x[p] = static_cast<float>(set.pixels[i * in + p]) / 255.0f;
      for (size_t c = 0; c < out; ++c) y[c] += x[p] * w[p * out + c];
    }
    return y;
  };
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const float rate = 0.02f * static_cast<float>(epochs - epoch) / static_cast<float>(epochs);
    for (size_t i = 0; i < static_cast<size_t>(train.size()); ++i) {
      std::array<float, out> y = scores(train, i);
      const float top = *std::max_element(y.begin(), y.end());
      float sum = 0;
      for (float& s : y) sum += s = std::exp(s - top);
      for (size_t c = 0; c < out; ++c) y[c] = y[c] / sum - (c == train.labels[i] ? 1.0f : 0.0f);
      for (size_t c = 0; c < out; ++c) b[c] -= rate * y[c];
      for (size_t p = 0; p < in; ++p) {
        for (size_t c = 0; c < out; ++c) w[p * out + c] -= rate * y[c] * x[p];
      }
    }
  }
  int right = 0;
  for (size_t i = 0; i < static_cast<size_t>(test.size()); ++i) {
    const auto y = scores(test, i);
    right += static_cast<size_t>(std::max_element(y.begin(), y.end()) - y.begin()) == test.labels[i];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(StrokeDigits, ALinearModelStaysBelow93Percent) {
  const data::Split split = stroke_digits();
  const double accuracy = linear_accuracy(split.train, split.test, 4);
  EXPECT_LT(accuracy, 0.93);
  EXPECT_GT(accuracy, 0.80);  // it is no noise either
  RecordProperty("linear_accuracy", std::to_string(accuracy));
}

}  // namespace
}  // namespace heddle
