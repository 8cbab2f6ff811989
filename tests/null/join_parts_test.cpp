// Accumulated steps: small ones are planned as the whole batch, large ones part by part. Needs no device.
#ifdef HEDDLE_HAS_BENCH

#include <gtest/gtest.h>

#include "bench/training_step.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/simplify/passes.h"
#include "heddle/heddle.h"

namespace heddle {
namespace {

// The report of the second step.
MemoryReport planned(const char* text, const char* passes = "all") {
  const PassScope scope(passes);
  const bench::TrainingStep step = bench::make_training_step(text, device("null:0"));
  step.record();
  eval_pending();
  const Tensor loss = step.record();
  const MemoryReport report = plan_pending();
  eval_pending();
  return report;
}

TEST(AccumulatedStep, OfASmallModelIsThatOfTheWholeBatch) {
  const MemoryReport whole = planned("mlp:32"), parts = planned("mlp:32/4"), apart = planned("mlp:32/4", "-parts");
  EXPECT_LE(parts.kernels, whole.kernels + 2);
  EXPECT_LE(parts.arena, whole.arena * 11 / 10);
  EXPECT_GT(apart.kernels, 2 * whole.kernels);
  EXPECT_LE(planned("cnn:32/4").arena, planned("cnn:32").arena * 11 / 10);
}

TEST(AccumulatedStep, OfALargeModelKeepsOnePartInMemory) {
  for (const char* text : {"mlp:16384/4", "gpt:8x64x2x64/4", "char-gpt:12/4"}) {
    const MemoryReport parts = planned(text), apart = planned(text, "-parts");
    EXPECT_EQ(parts.arena, apart.arena) << text;
    EXPECT_EQ(parts.kernels, apart.kernels) << text;
  }
  EXPECT_LT(planned("mlp:16384/4").arena, planned("mlp:16384").arena);
}

}  // namespace
}  // namespace heddle

#endif
