// The step cache, the kernels and recordings of one device from four threads: what tools/sanitize.sh runs under TSan.
#include <gtest/gtest.h>

#include <atomic>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/ir/dynamic_shapes.h"
#include "heddle/core/run/graph_cache.h"
#include "tests/null/four_threads.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::four_threads;
using test::leaf;
using test::null_device;

TEST(StepCacheThreads, TheSameStepIsPlannedOnce) {
  const Tensor x = leaf({1013}), w = leaf({1013});
  const auto before = null_device().counters();
  four_threads([&](int) {
    for (int i = 0; i < 40; ++i) (sigmoid(x * w) - tanh(w)).to_bytes();
  });
  const auto after = null_device().counters();
  EXPECT_EQ(after.steps_compiled - before.steps_compiled, 1u);
  EXPECT_EQ(after.step_hits - before.step_hits, 159u);
}

TEST(StepCacheThreads, DifferentStepsOfOneFamilyAndOfMany) {
  const uint64_t kernels = null_device().counters().kernels;
  std::atomic<uint64_t> run{0};
  four_threads([&](int t) {
    for (int i = 0; i < 40; ++i) {
      const Tensor x = leaf({3 + (i * 4 + t) % 29});  // sizes that vary: families are noted by all
      Tensor y = exp(x) + x;
      for (int k = 0; k < i % 5; ++k) y = y * x;
      eval({y, sum(y)});
      ++run;
    }
  });
  EXPECT_EQ(run, 160u);
  EXPECT_GE(null_device().counters().kernels - kernels, 160u);
}

TEST(StepCacheThreads, ClearedAndSwitchedInBetween) {
  const Tensor x = leaf({257});
  const auto f = compile([&](const Tensor& t) { return tanh(t * x) + 1.0; });
  std::atomic<int> done{0};
  const DynamicShapes before = dynamic_shapes();
  four_threads([&](int t) {
    for (int i = 0; i < 40; ++i) {
      if (t == 0 && i % 4 == 0) {
        auto locked = null_device().lock();
        graph_cache(null_device()).clear();
      }
      if (t == 1 && i % 8 == 0) set_dynamic_shapes(i % 16 == 0 ? DynamicShapes::always : DynamicShapes::automatic);
      if (t < 2)
        sum(exp(leaf({100 + i % 7})) * 0.5).to_bytes();
      else
        f(x).to_bytes();
      ++done;
    }
  });
  set_dynamic_shapes(before);
  EXPECT_EQ(done, 160);
}

TEST(StepCacheThreads, GrowingArenasBesideReplays) {
  const Tensor x = leaf({4096});
  const auto f = compile([&](const Tensor& t) { return sum(softmax(reshape(t, {64, 64}), -1), {0}); });
  four_threads([&](int t) {
    for (int i = 1; i <= 24; ++i) {
      if (t % 2 == 0) {
        f(x).to_bytes();
        continue;
      }
      const Tensor a = leaf({64 * i}), square = reshape(a, {8 * i, 8});
      matmul(matmul(square, transpose(square, 0, 1)), square).to_bytes();  // temporaries that grow
    }
  });
  EXPECT_GT(f.stats().recorded + f.stats().replayed, 47u);
}

}  // namespace
}  // namespace heddle
