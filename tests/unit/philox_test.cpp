// Known answers of Philox4x32-10: the vectors that its authors publish (Random123, kat_vectors).
#include "heddle/core/graph/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heddle {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, UniformTakesTheHighBitsOfEachWord) {
  const Words key{1, 2, 3, 4};
  for (uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{1} << 35}) {
    const Words bits = philox({static_cast<uint32_t>(n / 4), static_cast<uint32_t>(n / 4 >> 32), 3, 4}, {1, 2});
    EXPECT_EQ(philox_uniform(key, n), std::ldexp(static_cast<double>(bits[n % 4] >> 8), -24));
  }
}

TEST(Philox, UniformIsUniform) {
  const Words key{42, 0, 0, 0};
  double sum = 0, squares = 0;
  const int count = 100000;
  for (int n = 0; n < count; ++n) {
    const double u = philox_uniform(key, static_cast<uint64_t>(n));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / count, 0.5, 0.004);
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.004);
}

}  // namespace
}  // namespace heddle
