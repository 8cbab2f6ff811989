// What is computed a second time after a failure is the caller's decision.
#include "heddle/core/graph/run_once.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/number_guard.h"

namespace heddle {
namespace {

// Three results of 16 MB do not fit beside their input of 16 MB; one does.
TEST(RunOnce, WhatFailsIsNotTriedWithoutWhatNobodyAskedFor) {
  Caps caps = NullDevice::null_caps();
  caps.memory_bytes = 60 << 20;
  DeviceContext d(std::make_unique<NullDevice>(caps), DeviceInfo{.id = "null:small", .backend = "null"});
  const Tensor a = Tensor::from_vector(std::vector<float>(2048 * 2048), {2048, 2048}, &d);
  const Tensor x = matmul(a, a), y = matmul(x, a), z = matmul(a, x);
  const uint64_t before = d.counters().submissions;
  {
    const RunOnceScope once;
    EXPECT_THROW(eval({x}), OutOfMemory);
    EXPECT_EQ(d.counters().submissions, before);
  }
  EXPECT_NO_THROW(eval({x})) << "it stayed pending, and fits alone";
  EXPECT_EQ(d.counters().submissions, before + 1);
}

TEST(RunOnce, TheGuardNamesTheResultAlone) {
  DeviceContext& d = device("reference:0");
  const Tensor x = Tensor::from_vector(std::vector<float>{1, -1, 4}, {3}, &d);
  const NumberGuardScope guard;
  const auto fault = [&](bool once) {
    const RunOnceScope scope(once);
    const Tensor y = sqrt(x) * 3.0;
    try {
      y.to_bytes();
    } catch (const NumericError& error) {
      return std::pair(error.fault().op, std::string(error.what()).find("not computed again") != std::string::npos);
    }
    return std::pair(std::string("none"), false);
  };
  EXPECT_EQ(fault(false), std::pair(std::string("sqrt"), false));
  const auto [op, told] = fault(true);
  EXPECT_TRUE(told);
  EXPECT_NE(op, "none");
  EXPECT_NE(op, "sqrt");
}

TEST(RunOnce, ScopeAndProcess) {
  EXPECT_FALSE(run_once());
  set_run_once(true);
  std::thread([] {
    EXPECT_TRUE(run_once());
    const RunOnceScope off(false);
    EXPECT_FALSE(run_once());
  }).join();
  EXPECT_TRUE(run_once());
  set_run_once(false);
  EXPECT_FALSE(run_once());
}

}  // namespace
}  // namespace heddle
