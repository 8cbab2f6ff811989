// Kernels that do not depend on sizes: none are compiled after the third length, and the values are the reference's at
// odd sizes.
#include "heddle/core/ir/dynamic_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/graph_cache.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

using DynamicShapesTest = tests::DeviceTest;

// Losses of a tiny GPT over the lengths (`heddle bench shapes` trains one). `compiled`: kernels, by length.
std::vector<double> losses(DeviceContext& d, const std::vector<int64_t>& lengths,
                           std::vector<uint64_t>* compiled = nullptr) {
  manual_seed(5);
  nn::Gpt model({.vocabulary = 31, .context = 40, .layers = 1, .heads = 2, .width = 24, .dropout = 0}, {.device = d});
  std::vector<double> result;
  for (const int64_t length : lengths) {
    std::vector<int32_t> text(static_cast<size_t>(2 * length));
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>((i * i + 3) % 31);
    const uint64_t before = d.counters().kernels_compiled;
    const Tensor tokens = Tensor::from_vector(text, {2, length}, &d),
                 next = Tensor::from_vector(text, {2 * length}, &d);
    const Tensor loss = cross_entropy(reshape(model(tokens), {-1, 31}), next);
    result.push_back(loss.item());
    if (compiled) compiled->push_back(d.counters().kernels_compiled - before);
  }
  return result;
}

TEST_P(DynamicShapesTest, LengthsCompileNothingAfterTheThird) {
  const std::vector<int64_t> lengths{13, 29, 8, 5, 24, 31, 32, 40, 12, 7, 2, 33, 39, 16};
  std::vector<uint64_t> compiled;
  const std::vector<double> values = losses(device(), lengths, &compiled),
                            expected = losses(heddle::device("reference:0"), lengths);
  EXPECT_GT(compiled[0], 0u);
  for (size_t i = 3; i < lengths.size(); ++i) EXPECT_EQ(compiled[i], 0u) << "length " << lengths[i];
  for (size_t i = 0; i < lengths.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], 2e-4 * std::abs(expected[i])) << "length " << lengths[i];
}

// Pictures of many sizes through a small network: strides, depthwise and pointwise kernels, a transposed one.
TEST_P(DynamicShapesTest, PicturesCompileNothingAfterTheThird) {
  const auto filled = [](DeviceContext& d, const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 19) * 0.05f - 0.4f;
    return Tensor::from_vector(values, shape, &d);
  };
  const auto network = [&](DeviceContext& d, int64_t height, int64_t width) {
    Tensor x = filled(d, {1, 3, height, width});
    x = relu(conv2d(x, filled(d, {8, 3, 3, 3}), {.stride = {2, 2}, .padding = {1, 1}}));
    x = relu(conv2d(x, filled(d, {8, 1, 5, 5}), {.padding = {2, 2}, .groups = 8}));
    x = relu(conv2d(x, filled(d, {24, 8, 1, 1})));
    x = conv2d(x, filled(d, {16, 24, 3, 3}), {.padding = {1, 1}});
    return conv_transpose2d(x, filled(d, {16, 4, 2, 2}), {.stride = {2, 2}});
  };
  std::vector<uint64_t> compiled;
  const int64_t sizes[][2] = {{32, 48}, {20, 64}, {44, 36}, {96, 128}, {16, 20}, {52, 100}, {128, 24}};
  for (const auto& [height, width] : sizes) {
    const uint64_t before = device().counters().kernels_compiled;
    const std::vector<double> values = network(device(), height, width).to_doubles();
    compiled.push_back(device().counters().kernels_compiled - before);
    const std::vector<double> expected = network(heddle::device("reference:0"), height, width).to_doubles();
    ASSERT_EQ(values.size(), expected.size());
    double largest = 0, worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      worst = std::max(worst, std::abs(values[i] - expected[i]));
    }
    EXPECT_LE(worst, 1e-5 * largest) << height << " x " << width;
  }
  EXPECT_GT(compiled[0], 0u);
  for (size_t i = 3; i < compiled.size(); ++i) EXPECT_EQ(compiled[i], 0u) << sizes[i][0] << " x " << sizes[i][1];
}

TEST_P(DynamicShapesTest, BatchesOfADataSetAreThoseOfTheHost) {
  std::vector<float> data(320 * 64);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 97) * 0.01f;
  const Tensor x = Tensor::from_vector(data, {320, 64}, &device());
  const auto before = device().counters();
  for (int64_t start = 0; start < 320; start += 32) {
    const Tensor batch = slice(x, 0, {.start = start, .stop = start + 32});
    const std::vector<double> sums = sum(batch * 2.0, {1}).to_doubles();
    for (size_t r = 0; r < 32; ++r) {
      double expected = 0;
      for (size_t c = 0; c < 64; ++c) expected += 2.0 * data[(static_cast<size_t>(start) + r) * 64 + c];
      ASSERT_NEAR(sums[r], expected, 1e-3) << start + static_cast<int64_t>(r);
    }
  }
  EXPECT_EQ(device().counters().steps_compiled - before.steps_compiled, 1u);
}

// Views of one storage: a view of the start binds all of it, an update in place writes all of it, a result that is a
// view keeps its place.
TEST_P(DynamicShapesTest, ViewsOfOneStorageKeepTheirPlaces) {
  std::vector<float> data(4096);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const Tensor x = Tensor::from_vector(data, {4096}, &device());
  const auto part = [&](int64_t start, int64_t count) { return slice(x, 0, {.start = start, .stop = start + count}); };
  const Tensor late = part(2048, 100), odd = part(1027, 100);
  eval({late, odd});
  EXPECT_EQ((late + odd).to_doubles()[1], 2049 + 1028);
  EXPECT_EQ((late * 1.0 + part(0, 100)).to_doubles()[99], 2147 + 99);
  EXPECT_EQ(slice(late, 0, {.start = 50, .stop = 60}).to_doubles()[0], 2098);
  const Tensor view = reshape(slice(late, 0, {.start = 10, .stop = 90}), {8, 10});
  EXPECT_EQ(view.to_doubles()[11], 2069);
  EXPECT_EQ((transpose(view, 0, 1) * 2.0).to_doubles()[1], 2 * 2068);
}

TEST_P(DynamicShapesTest, FourThreads) {
  DeviceContext& d = device();
  const Tensor x = Tensor::from_vector(std::vector<float>(96, 0.5f), {96}, &d);
  const auto f = compile([&](const Tensor& t) { return t * x + 1.0; });
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        if (t == 3 && i % 5 == 0) {
          auto locked = d.lock();
          graph_cache(d).clear();
        }
        const int64_t n = 10 + (i + static_cast<int>(t)) % 6;
        const Tensor y = Tensor::from_vector(std::vector<float>(static_cast<size_t>(n), 3.0f), {n}, &d);
        wrong[t] += sum(y * 2.0).item() != 6.0 * static_cast<double>(n);
        wrong[t] += f(x).to_doubles()[95] != 1.25;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

HEDDLE_DEVICE_TESTS(DynamicShapesTest);

}  // namespace
}  // namespace heddle
