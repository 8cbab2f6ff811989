// Loops that nobody looks at: cut after whole periods, so that plans are found again and memory stays bounded.
#include "heddle/core/record/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::tests {
namespace {

TEST(Repeats, SmallestPeriodIsThatOfPlainComparison) {
  const auto plain = [](const std::vector<uint64_t>& all) {
    for (size_t p = 1; p < all.size(); ++p) {
      bool same = true;
      for (size_t i = 0; i + p < all.size(); ++i) same = same && all[i] == all[i + p];
      if (same) return p;
    }
    return all.size();
  };
  uint64_t random = 7;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<uint64_t> all;
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    const size_t length = 1 + (random >> 33) % 40, period = 1 + (random >> 50) % 9;
    for (size_t i = 0; i < length; ++i) all.push_back(i < period ? random >> (3 * i) & 1 : all[i - period]);
    EXPECT_EQ(smallest_period(all), plain(all));
  }
  EXPECT_EQ(smallest_period({}), 0u);
}

// Lines 10 to 16 of a loop, after a prologue: pieces end behind line 16.
TEST(Repeats, PiecesEndWhereTheLoopBeginsAgain) {
  Repeats repeats;
  for (uint64_t i = 0; i < 500; ++i) EXPECT_FALSE(repeats.note(1000 + i, 3));
  std::vector<size_t> cuts;
  for (size_t i = 0; i < 20000; ++i) {
    const auto line = static_cast<uint32_t>(10 + i % 7);
    if (!repeats.note(line, line)) continue;
    EXPECT_EQ(line, 16u);
    cuts.push_back(i);
  }
  ASSERT_GT(cuts.size(), 10u);
  for (size_t k = 1; k < cuts.size(); ++k) EXPECT_EQ(cuts[k] - cuts[k - 1], 64u / 7 * 7);
  EXPECT_FALSE(repeats.note(99, 99));
  EXPECT_EQ(repeats.period(), 0u);
}

// 24 equal layers of 60 operations are no loop.
TEST(Repeats, LayersOfAModelAreNone) {
  Repeats repeats;
  for (uint64_t i = 0; i < 24 * 60; ++i) EXPECT_FALSE(repeats.note(i % 60, 5));
  for (uint64_t i = 0; i < 4000; ++i) EXPECT_FALSE(repeats.note(1000 + i, 6));
  EXPECT_EQ(repeats.period(), 0u);
}

struct Spent {
  uint64_t planned = 0, found = 0, most = 0;
};

// x and its speed, some operations an iteration.
Spent run_loop(int iterations, int64_t size = 1024) {
  DeviceContext& null = device("null:0");
  Tensor x = zeros({size}, DType::f32, &null), speed = ones({size}, DType::f32, &null);
  eval({x, speed});
  const DeviceCounters before = null.counters();
  Spent spent;
  for (int i = 0; i < iterations; ++i) {
    const Tensor force = sin(x) * -0.5;
    speed = speed * 0.99 + force;
    x = x + speed * 0.01;
    spent.most = std::max(spent.most, null.memory().live_bytes);
  }
  const DeviceCounters after = null.counters();
  return {after.steps_compiled - before.steps_compiled, after.step_hits - before.step_hits, spent.most};
}

TEST(Repeats, LoopsThatNobodyLooksAtFindTheirPlansAgain) {
  const Spent few = run_loop(2000), many = run_loop(8000);
  EXPECT_LE(many.planned, 3u);
  EXPECT_GE(many.found, 20u);
  EXPECT_LE(many.most, few.most + (uint64_t{1} << 20));
}

// What was pending when the loop was recognised is computed in the pieces of the loop, and not as one plan of a
// thousand operations.
TEST(Repeats, TheFirstPiecesAreThoseOfTheLoop) {
  const Spent brief = run_loop(115, 777);
  EXPECT_LE(brief.planned, 3u);
  EXPECT_GE(brief.found, 2u);
}

}  // namespace
}  // namespace heddle::tests
