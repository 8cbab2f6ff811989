// How the bodies of linear algebra are cut: no device is asked.
#include "heddle/core/tiles/linalg_tiles.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace heddle {
namespace {

Caps caps_of(DeviceClass device_class, uint64_t most_iterations = uint64_t{1} << 62) {
  Caps caps;
  caps.device_class = device_class;
  caps.target = Target::glsl;
  caps.max_group_lanes = 1024;
  caps.max_loop_iterations = most_iterations;
  return caps;
}

TEST(LinalgSchedule, LanesAreThePowerOfTwoThatCoversTheRows) {
  for (const auto& [n, lanes] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 8}, {8, 8}, {9, 16}, {33, 64}, {64, 64}, {65, 64}, {5000, 64}}) {
    EXPECT_EQ(pick_cholesky(caps_of(DeviceClass::cpu), DType::f32, n).at("LANES"), lanes) << n;
  }
  EXPECT_EQ(pick_cholesky(caps_of(DeviceClass::discrete_gpu), DType::f32, 20).at("LANES"), 32);
  EXPECT_EQ(pick_cholesky(caps_of(DeviceClass::discrete_gpu), DType::f32, 5000).at("LANES"), 128);
}

TEST(LinalgSchedule, ABlockIsTheLargestThatTheLoopsOfTheDriverAllow) {
  EXPECT_EQ(lu_block(caps_of(DeviceClass::cpu), DType::f32, 500, 500), 128);
  EXPECT_EQ(lu_block(caps_of(DeviceClass::cpu), DType::f32, 500, 50), 50);
  for (const uint64_t most : {10'000u, 20'000u, 60'000u}) {
    const Caps caps = caps_of(DeviceClass::cpu, most);
    const auto iterations = [&](int64_t block) {
      return static_cast<uint64_t>(lu_iterations(pick_lu(caps, DType::f32, 500, block), 500, block));
    };
    const int64_t block = lu_block(caps, DType::f32, 500, 500);
    EXPECT_LE(iterations(block), most);
    EXPECT_LT(block, 128);
    EXPECT_GT(iterations(2 * block), most);
  }
}

// shaders/rotate_rows.hk: a column is read; each rotation turns an element of it, each sweep reads and writes one.
TEST(LinalgSchedule, IterationsOfRotations) {
  int64_t counted = 0;
  const int64_t n = 37, sweeps = 5, rotations = 60;
  for (int64_t row = 0; row < n; ++row) ++counted;
  for (int64_t sweep = 0; sweep < sweeps; ++sweep) counted += 2;
  for (int64_t rotation = 0; rotation < rotations; ++rotation) ++counted;
  EXPECT_EQ(rotate_rows_iterations({{"SCHEDULE", 0}, {"LANES", 16}}, n, sweeps, rotations), counted);
}

// All launches together have room for six sweeps a row; each fits the loops of the driver.
TEST(LinalgSchedule, SweepsAreDividedAmongLaunches) {
  for (const uint64_t most : {uint64_t{1} << 62, uint64_t{65535}}) {
    const Caps caps = caps_of(DeviceClass::cpu, most);
    for (const int64_t n : {1, 2, 17, 64, 300}) {
      const SweepLaunches made = sweep_launches(caps, DType::f32, n);
      EXPECT_GE(made.sweeps * made.launches, 6 * n) << n;
      EXPECT_GE(made.room, n) << n;
      EXPECT_GE(made.room * made.launches, 3 * n * n) << n;
      EXPECT_LE(static_cast<uint64_t>(sweeps_iterations(n, made.sweeps, made.room)), most) << n;
    }
  }
}

TEST(LinalgSchedule, WhatTheLoopsOfTheDriverEndIsRotatedAsAWhole) {
  EXPECT_TRUE(condenses(caps_of(DeviceClass::cpu, 65535), DType::f32, 300, false));
  EXPECT_FALSE(condenses(caps_of(DeviceClass::cpu, 65535), DType::f64, 300, false));
  EXPECT_FALSE(condenses(caps_of(DeviceClass::cpu), DType::f32, 8, false));
  EXPECT_FALSE(condenses(caps_of(DeviceClass::discrete_gpu), DType::f32, 1025, true));
}

}  // namespace
}  // namespace heddle
