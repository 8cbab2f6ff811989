// New sizes plan anew, but find their kernels: numbers computed from sizes are constants of the launch, and from the
// third set of sizes on kernels do not depend on those that varied.
#include "heddle/core/ir/dynamic_shapes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "heddle/core/base/across_runs.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/graph_cache.h"
#include "heddle/data/buckets.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::null_device;

uint64_t compiled_by(int64_t rows, int64_t columns) {
  DeviceContext& device = null_device();
  const uint64_t before = device.counters().kernels_compiled;
  Tensor x =
      Tensor::from_vector(std::vector<float>(static_cast<size_t>(rows * columns), 0.5f), Shape{rows, columns}, &device);
  x.set_requires_grad();
  const Tensor targets = Tensor::from_vector(std::vector<int32_t>(static_cast<size_t>(rows), 1), Shape{rows}, &device);
  const Tensor centred = x - mean(x, {1}, true);
  const Tensor loss = cross_entropy(centred * rsqrt(mean(centred * centred, {1}, true) + 1e-5), targets) + mean(x * x);
  const Tensor gradient = grad(loss, x);
  eval({loss, gradient});
  return device.counters().kernels_compiled - before;
}

class ModeScope {
 public:
  explicit ModeScope(DynamicShapes mode) : before_(dynamic_shapes()) { set_dynamic_shapes(mode); }
  ~ModeScope() { set_dynamic_shapes(before_); }

 private:
  DynamicShapes before_;
};

struct Gpt {
  nn::Gpt model{{.vocabulary = 64, .context = 600, .layers = 2, .heads = 2, .width = 64, .dropout = 0.1},
                {.device = null_device()}};
  nn::AdamW optimizer{model.parameters(), 1e-3};

  // Kernels compiled by a training step on (batch, length) tokens.
  uint64_t train(int64_t batch, int64_t length) {
    const uint64_t before = null_device().counters().kernels_compiled;
    const auto zeros = [&](const Shape& shape) {
      return Tensor::from_vector(std::vector<int32_t>(static_cast<size_t>(shape.numel()), 0), shape, &null_device());
    };
    const Tensor loss = cross_entropy(reshape(model(zeros({batch, length})), {-1, 64}), zeros({batch * length}));
    backward(loss);
    optimizer.update();
    optimizer.zero_grad();
    eval({loss});
    return null_device().counters().kernels_compiled - before;
  }
};

TEST(DynamicShapes, MeansOfOtherSizesAreNoNewKernels) {
  const ModeScope never(DynamicShapes::never);
  EXPECT_GT(compiled_by(37, 75), 0u);
  for (const int64_t rows : {39, 41, 45, 51, 59}) {
    EXPECT_EQ(compiled_by(rows, rows + 40), 0u) << rows;
  }
}

TEST(DynamicShapes, LengthsCompileNothingAfterTheThird) {
  Gpt gpt;
  EXPECT_GT(gpt.train(2, 77), 0u);
  gpt.train(2, 130);
  gpt.train(2, 16);
  // Among them the width, the size of a head, the vocabulary and the longest of all, whose position table is read
  // whole.
  for (const int64_t length : {2, 3, 7, 32, 64, 63, 65, 128, 256, 511, 512, 600, 599, 4, 48})
    EXPECT_EQ(gpt.train(2, length), 0u) << length;
}

TEST(DynamicShapes, BatchAndLengthMayVaryTogether) {
  Gpt gpt;
  gpt.train(2, 77);
  gpt.train(3, 130);
  gpt.train(7, 16);
  for (const int64_t length : {9, 64, 200, 33}) EXPECT_EQ(gpt.train(1 + length % 5 + 1, length), 0u) << length;
}

TEST(DynamicShapes, AFixedShapeKeepsItsKernels) {
  Gpt gpt;
  gpt.train(2, 24);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gpt.train(2, 24), 0u);
  gpt.train(1, 24);  // a last, smaller batch
  const auto before = null_device().counters();
  EXPECT_EQ(gpt.train(2, 24), 0u);
  EXPECT_EQ(null_device().counters().steps_compiled, before.steps_compiled);
}

// Processes that follow each other count as one: what they forget in between stands in the cache folder.
TEST(DynamicShapes, SizesOfEarlierRunsCount) {
  const std::string folder = ::testing::TempDir() + "heddle_sizes";
  const char* before = std::getenv("HEDDLE_CACHE_DIR");
  const std::string kept = before ? before : "";
  setenv("HEDDLE_CACHE_DIR", folder.c_str(), 1);
  across_runs::set(true);
  const auto next_run = [] {
    const auto locked = null_device().lock();
    graph_cache(null_device()).clear();
    graph_cache(null_device()).families().clear();
  };
  Gpt gpt;
  gpt.train(2, 77);
  next_run();
  gpt.train(2, 130);
  next_run();
  gpt.train(2, 16);
  for (const int64_t length : {3, 64, 511, 77, 130}) {
    next_run();
    EXPECT_EQ(gpt.train(2, length), 0u) << length;
  }
  // Sizes of another subject are apart.
  const auto families = [&] {
    return std::distance(std::filesystem::directory_iterator(folder + "/sizes"), std::filesystem::directory_iterator());
  };
  const auto of_one = families();
  across_runs::set(true, 1);
  next_run();
  gpt.train(2, 96);
  EXPECT_EQ(families(), 2 * of_one);
  across_runs::set(false);
  before ? setenv("HEDDLE_CACHE_DIR", kept.c_str(), 1) : unsetenv("HEDDLE_CACHE_DIR");
  std::filesystem::remove_all(folder);
}

TEST(DynamicShapes, MemoryIsThatOfTheLongest) {
  Gpt gpt;
  const auto live = [] { return null_device().memory().live_bytes; };
  gpt.train(2, 600);
  gpt.train(2, 600);
  const uint64_t longest = live();
  Gpt other;
  const uint64_t model = live() - longest;
  for (int64_t length = 20; length <= 580; length += 80)
    gpt.train(2, length);  // each with an arena of its own, if it kept it
  other.train(2, 600);
  EXPECT_LE(live(), longest + 4 * model + (64 << 10));
}

TEST(DynamicShapes, BatchesOfADataSetShareOnePlan) {
  DeviceContext& d = null_device();
  const Tensor images = Tensor::from_vector(std::vector<float>(640 * 784, 0.5f), {640, 784}, &d);
  const Tensor labels = Tensor::from_vector(std::vector<int32_t>(640, 1), {640}, &d);
  const Tensor w = Tensor::from_vector(std::vector<float>(784 * 10, 0.1f), {784, 10}, &d);
  const auto before = d.counters();
  for (int64_t i = 0; i < 10; ++i) {
    const Tensor x = slice(images, 0, {.start = i * 64, .stop = (i + 1) * 64}),
                 y = slice(labels, 0, {.start = i * 64, .stop = (i + 1) * 64});
    eval({cross_entropy(matmul(x, w), y)});
  }
  EXPECT_EQ(d.counters().steps_compiled - before.steps_compiled, 1u);
}

TEST(DynamicShapes, BucketsBoundThePlans) {
  std::vector<std::vector<int32_t>> texts;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 200; ++i) {
    lengths.push_back(1 + i * 37 % 90);
    texts.emplace_back(static_cast<size_t>(lengths.back()), 1);
  }
  const std::vector<int64_t> buckets = data::choose_buckets(lengths, 4, 8);
  const auto before = null_device().counters();
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (const data::BucketBatch& b :
         data::bucketed_batches(lengths, buckets, {.batch = 8, .drop_last = true}, epoch)) {
      const Shape shape{static_cast<int64_t>(b.items.size()), b.length};
      eval({sum(exp(cast(Tensor::from_vector(data::pad_sequences(texts, b.items, b.length, 0), shape, &null_device()),
                         DType::f32)),
                {1})});
    }
  }
  EXPECT_EQ(null_device().counters().steps_compiled - before.steps_compiled, buckets.size());
}

}  // namespace
}  // namespace heddle
