// The static model of `heddle certify` on loops whose limits are known by arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/core/base/error.h"
#include "tools/certify/model.h"
#include "tools/certify/rank_correlation.h"

namespace heddle::tools::certify {
namespace {

const GpuFamily& family(const std::string& arch) {
  return *find_families(parse_vendors({}), std::vector<std::string>{arch}).at(0);
}

// A loop of so many of each, with subgroups enough to hide what it waits for.
Compiled loop(int fma, int vector, int shared_of_16_bytes, int loads, double occupancy = 1) {
  Compiled kernel;
  kernel.occupancy = occupancy;
  const auto add = [&](int count, Unit unit, double amount) {
    for (int i = 0; i < count; ++i) kernel.code.push_back({unit, "x", amount, {}});
  };
  add(fma, Unit::fma, 32);
  add(vector, Unit::vector, 32);
  add(shared_of_16_bytes, Unit::shared, 32 * 16);
  add(loads, Unit::memory, 32 * 16);
  kernel.code.push_back({Unit::branch, "bra", 0, size_t{0}});
  return kernel;
}

TEST(CertifyModel, NamesWhatLimitsALoop) {
  // sm_80 has 64 multiply-add lanes and 4 schedulers: as many other instructions as multiply-adds cost nothing.
  const auto free = predict(loop(1024, 300, 0, 0), family("sm_80"));
  ASSERT_TRUE(free);
  EXPECT_DOUBLE_EQ(free->fraction, 1);
  EXPECT_EQ(free->limit, Limit::multiply);
  // sm_90 has 128: every instruction is one less. 1024 / (1024 + 300 + 1).
  const auto issue = predict(loop(1024, 300, 0, 0), family("sm_90"));
  EXPECT_NEAR(issue->fraction, 1024.0 / 1325, 1e-12);
  EXPECT_EQ(issue->limit, Limit::issue);
  // 64 loads of 16 bytes a lane: 256 clocks of shared memory, 128 multiply-adds: 64 clocks.
  const auto shared = predict(loop(128, 0, 64, 0), family("sm_80"));
  EXPECT_DOUBLE_EQ(shared->fraction, 0.25);
  EXPECT_EQ(shared->limit, Limit::shared);
  // The cache gives half of that.
  const auto cache = predict(loop(128, 0, 0, 32), family("sm_80"));
  EXPECT_DOUBLE_EQ(cache->fraction, 0.25);
  EXPECT_EQ(cache->limit, Limit::cache);
}

// One subgroup of 64 waits for its load in every pass of 33 instructions: 450 clocks for 16.
TEST(CertifyModel, FewSubgroupsDoNotHideLatency) {
  const auto alone = predict(loop(31, 0, 0, 1, 1.0 / 64), family("sm_80"));
  EXPECT_NEAR(alone->fraction, 31 * 0.5 / 450, 1e-12);
  EXPECT_EQ(alone->limit, Limit::latency);
  EXPECT_GT(predict(loop(31, 0, 0, 1, 1), family("sm_80"))->fraction, 0.9);
}

TEST(CertifyModel, SaysNothingOfLoopsThatDoNotMultiply) {
  EXPECT_FALSE(predict(loop(0, 10, 0, 1), family("navi21")));
  EXPECT_FALSE(predict(Compiled{}, family("navi21")));
}

// Of 128 lanes with 100 registers each: sm_80 gives 104, so that a scheduler's 16,384 hold four subgroups.
TEST(CertifyModel, OccupancyCountsRegistersSharedMemoryAndGroups) {
  const GpuFamily& a100 = family("sm_80");
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 100, 0, 128, 32), 16.0 / 64);
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 32, 0, 128, 32), 1);
  // Whole groups: 16 subgroups of registers are one group of 12.
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 100, 0, 384, 32), 12.0 / 64);
  // 164 KiB of shared memory; each group takes 1 KiB more than it asks for. Turing's does not.
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 32, 40 * 1024, 128, 32), 16.0 / 64);
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 32, 41 * 1024, 128, 32), 12.0 / 64);
  EXPECT_DOUBLE_EQ(occupancy_of(family("sm_75"), 32, 32 * 1024, 128, 32), 8.0 / 32);
  // At most 32 groups of an A100's unit, however small.
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 16, 0, 32, 32), 0.5);
  // 84 registers of 64 lanes: three subgroups in the 256 of each of vega10's four SIMDs; six in the 512 of navi21's two
  // (in steps of 8: 88, five).
  EXPECT_DOUBLE_EQ(occupancy_of(family("vega10"), 84, 0, 64, 64), 12.0 / 40);
  EXPECT_DOUBLE_EQ(occupancy_of(family("navi21"), 84, 0, 64, 64), 10.0 / 32);
  // One group is there, whatever it takes.
  EXPECT_DOUBLE_EQ(occupancy_of(a100, 255, 166912, 1024, 32), 32.0 / 64);
}

TEST(CertifyModel, TheLastRoundLeavesUnitsIdle) {
  EXPECT_DOUBLE_EQ(fill_of(108, 108), 1);
  EXPECT_DOUBLE_EQ(fill_of(109, 108), 109.0 / 216);
  EXPECT_DOUBLE_EQ(fill_of(1, 4), 0.25);
}

// Values of Spearman's by hand: 1 - 6 sum d^2 / (n (n^2 - 1)) without ties.
TEST(CertifyModel, RankCorrelation) {
  const std::vector<double> rising = {1, 2, 4, 8, 16}, falling = {5, 4, 3, 2, 1}, mixed = {10, 30, 20, 40, 50};
  EXPECT_DOUBLE_EQ(rank_correlation(rising, rising), 1);
  EXPECT_DOUBLE_EQ(rank_correlation(rising, falling), -1);
  EXPECT_DOUBLE_EQ(rank_correlation(rising, mixed), 1 - 6.0 * 2 / (5 * 24));
  // Ranks 0.5 0.5 2 against 0 1 2: 1.5 / sqrt(1.5 * 2).
  const std::vector<double> tied = {3, 3, 7}, plain = {1, 2, 3}, equal = {1, 1, 1};
  EXPECT_NEAR(rank_correlation(tied, plain), 1.5 / std::sqrt(3.0), 1e-12);
  EXPECT_TRUE(std::isnan(rank_correlation(plain, equal)));
}

TEST(CertifyModel, UnknownNamesAreRefusedWithASuggestion) {
  try {
    find_families(parse_vendors({}), std::vector<std::string>{"navi12"});
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean navi21?"), std::string::npos) << error.what();
  }
  EXPECT_THROW(parse_vendors(std::vector<std::string>{"nvidea"}), ValueError);
  // Of the vendors that were named only.
  EXPECT_THROW(find_families(parse_vendors(std::vector<std::string>{"amd"}), std::vector<std::string>{"sm_80"}),
               ValueError);
}

}  // namespace
}  // namespace heddle::tools::certify
