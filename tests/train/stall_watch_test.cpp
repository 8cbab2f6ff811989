// A run that stands still is noticed, also when whoever is asked about it does not answer.
#include "heddle/train/stall_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace heddle::train {
namespace {

using namespace std::chrono_literals;

// Whether it became true within 20 s.
bool soon(const std::atomic<int>& count) {
  for (int i = 0; i < 2000 && count == 0; ++i) std::this_thread::sleep_for(10ms);
  return count > 0;
}

TEST(StallWatch, SaysSoOnceWhenNothingMoves) {
  std::atomic<int> stalls = 0;
  std::atomic<double> limit = 0;
  StallWatch watch(
      0.1, [] { return uint64_t{7}; },
      [&](double seconds) {
        limit = seconds;
        ++stalls;
      });
  ASSERT_TRUE(soon(stalls));
  EXPECT_DOUBLE_EQ(limit, 0.1);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(stalls, 1);
}

TEST(StallWatch, IsQuietWhileSomethingMoves) {
  std::atomic<uint64_t> steps = 0;
  std::atomic<int> stalls = 0;
  {
    StallWatch watch(
        5, [&] { return ++steps; }, [&](double) { ++stalls; });
    std::this_thread::sleep_for(200ms);
  }
  EXPECT_EQ(stalls, 0);
}

// As a driver that hangs under a lock which whoever asks for progress needs.
TEST(StallWatch, NoticesWhenTheNumberCannotBeHad) {
  std::atomic<int> stalls = 0;
  std::mutex held;
  std::unique_lock lock(held);
  StallWatch watch(
      0.1,
      [&] {
        const std::lock_guard asked(held);
        return uint64_t{1};
      },
      [&](double) { ++stalls; });
  EXPECT_TRUE(soon(stalls));
  lock.unlock();
}

TEST(StallWatch, LimitIsTheVariableOrADefault) {
  unsetenv("HEDDLE_TIMEOUT");
  EXPECT_DOUBLE_EQ(stall_limit(), stall_seconds);
  setenv("HEDDLE_TIMEOUT", "7.5", 1);
  EXPECT_DOUBLE_EQ(stall_limit(), 7.5);
  setenv("HEDDLE_TIMEOUT", "0", 1);
  EXPECT_DOUBLE_EQ(stall_limit(), 0);
  unsetenv("HEDDLE_TIMEOUT");
  std::atomic<int> stalls = 0;
  {
    StallWatch watch(
        0, [] { return uint64_t{0}; }, [&](double) { ++stalls; });
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(stalls, 0) << "0: never";
}

}  // namespace
}  // namespace heddle::train
