// The static model of `heddle certify` on loops whose limits are known by arithmetic.
#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "tools/certify/model.h"

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
