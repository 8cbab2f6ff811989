// train/risk_coverage.h against counting by hand.
#include "heddle/train/risk_coverage.h"

#include <gtest/gtest.h>

#include <limits>

#include "heddle/core/base/error.h"

namespace heddle::train {
namespace {

TEST(RiskCoverage, CountsDecidedAndWrong) {
  const std::vector<double> confidence{0.9, 0.5, 0.99, 0.5, 0.7};
  const std::vector<bool> wrong{false, true, false, false, true};
  const RiskPoint all = risk_at(confidence, wrong, 0), some = risk_at(confidence, wrong, 0.7),
                  none = risk_at(confidence, wrong, 1);
  EXPECT_EQ(all.coverage, 1);
  EXPECT_EQ(all.risk, 2.0 / 5);
  EXPECT_EQ(some.coverage, 3.0 / 5);
  EXPECT_EQ(some.risk, 1.0 / 3);
  EXPECT_EQ(none.coverage, 0);
  EXPECT_EQ(none.risk, 0);
}

TEST(RiskCoverage, CurveTakesTheSurestFirst) {
  const std::vector<RiskPoint> curve =
      risk_coverage_curve({0.9, 0.5, 0.99, 0.5, 0.7}, {false, true, false, false, true}, 5);
  ASSERT_EQ(curve.size(), 5u);
  const double coverage[] = {0.2, 0.4, 0.6, 1, 1},
               risk[] = {0, 0, 1.0 / 3, 0.4, 0.4};  // the two of 0.5 are decided together
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(curve[i].coverage, coverage[i]);
    EXPECT_DOUBLE_EQ(curve[i].risk, risk[i]);
  }
  EXPECT_EQ(curve[0].threshold, 0.99);
  EXPECT_TRUE(risk_coverage_curve({}, {}).empty());
  for (const int64_t points : {INT64_MIN, int64_t{0}, int64_t{1} << 32, INT64_MAX})
    EXPECT_THROW(risk_coverage_curve({0.5}, {true}, points), ValueError);
}

TEST(RiskCoverage, NotANumberIsNeverSure) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(risk_at({nan, 0.5}, {true, false}, 0).coverage, 0.5);
  EXPECT_THROW(risk_at({0.5}, {}, 0), ValueError);
}

}  // namespace
}  // namespace heddle::train
