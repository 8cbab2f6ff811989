// The C library's sin, cos and tan of large arguments, which the reference device takes; values of mpmath, 400 digits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace heddle {
namespace {

TEST(Trigonometry, IsRightForArgumentsOfAnySize) {
  struct Row {
    double x, sine, cosine;
  };
  for (const Row& row : {Row{0.5, 0.47942553860420300027, 0.87758256189037271612},
                         Row{-3.0, -0.1411200080598672221, -0.98999249660044545727},
                         Row{100000.0, 0.035748797972016509316, -0.99936080743821245189},
                         Row{2147483648.0, -0.97131017579293924283, 0.23781619457280335715},
                         Row{1e+16, 0.77968800660697875024, -0.62616819813308617176},
                         Row{1e+22, -0.85220084976718880177, 0.5232147853951389455},
                         Row{-1e+30, -0.0093314689311758240572, -0.99995646089596646014},
                         Row{3.4028234663852886e+38, -0.52187652333365854055, 0.85302103983030415805},
                         Row{1.7976931348623157e+308, 0.0049619547891840617905, -0.99998768942655993746}}) {
    SCOPED_TRACE(row.x);
    volatile double x = row.x;  // not computed by the compiler
    EXPECT_DOUBLE_EQ(std::sin(x), row.sine);
    EXPECT_DOUBLE_EQ(std::cos(x), row.cosine);
    EXPECT_NEAR(std::tan(x), row.sine / row.cosine, 1e-14 * std::abs(row.sine / row.cosine));
  }
  EXPECT_TRUE(std::isnan(std::sin(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(std::cos(-std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(std::tan(std::nan(""))));
  EXPECT_TRUE(std::signbit(std::sin(-0.0)));
}

}  // namespace
}  // namespace heddle
