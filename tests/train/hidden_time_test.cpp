// Which share of the time of communication passes while the device computes.
#include "heddle/train/hidden_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace heddle::train {
namespace {

HiddenTime::Time at(int milliseconds) { return HiddenTime::Time() + std::chrono::milliseconds(milliseconds); }

TEST(HiddenTime, IsNothingWithoutCalls) {
  HiddenTime time;
  EXPECT_EQ(time.share(), 0);
  time.add({}, at(5));
  EXPECT_EQ(time.share(), 0);
}

TEST(HiddenTime, CountsUntilTheDeviceIsDone) {
  HiddenTime time;
  const std::vector<HiddenTime::Call> calls{{at(10), at(20)}, {at(30), at(50)}};
  time.add(calls, at(40));  // 10 of 10, and 10 of 20
  EXPECT_NEAR(time.share(), 20.0 / 30, 1e-12);
  time.add(calls, at(5));  // nothing of 30
  EXPECT_NEAR(time.share(), 20.0 / 60, 1e-12);
}

TEST(HiddenTime, CallsAtOnceCountOnce) {
  HiddenTime time;
  const std::vector<HiddenTime::Call> calls{{at(0), at(30)}, {at(10), at(20)}, {at(20), at(40)}};
  time.add(calls, at(10));  // of 0 to 40
  EXPECT_NEAR(time.share(), 0.25, 1e-12);
}

}  // namespace
}  // namespace heddle::train
