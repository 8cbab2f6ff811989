#include "heddle/core/base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

constexpr DType all_types[] = {DType::f32, DType::f16, DType::bf16, DType::f64,    DType::i8,
                               DType::u8,  DType::i32, DType::i64,  DType::boolean};

// The value of a binary16 pattern, straight from the standard.
double f16_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 0x1f) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(DType, NamesAndSizes) {
  for (DType t : all_types) EXPECT_EQ(parse_dtype(name_of(t)), t);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(size_of(DType::i64), 8u);
  try {
    parse_dtype("float");
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_STREQ(e.what(), "[dtype] unknown dtype 'float'; known: f32, f16, bf16, f64, i8, u8, i32, i64, bool");
  }
}

TEST(DType, EveryF16PatternRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    const double expected = f16_value(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(f32_to_f16(value), half) << bits;
    }
  }
}

TEST(DType, EveryBf16PatternRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = bf16_to_f32(half);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << bits;
    } else {
      ASSERT_EQ(f32_to_bf16(value), half) << bits;
    }
  }
}

// Between two neighbours: below the middle down, above it up, the middle to the even one.
template <class FromBits, class ToBits>
void check_ties(uint16_t largest, FromBits from, ToBits to) {
  for (uint16_t low = 0; low < largest; ++low) {
    const float a = from(low), b = from(static_cast<uint16_t>(low + 1));
    const float middle = static_cast<float>((static_cast<double>(a) + b) / 2);  // exact: one more bit than the type has
    const auto high = static_cast<uint16_t>(low + 1);
    const uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(to(middle), even) << low;
    ASSERT_EQ(to(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(to(std::nextafter(middle, INFINITY)), high) << low;
    ASSERT_EQ(to(-middle), even | 0x8000) << low;
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  check_ties(0x7bff, f16_to_f32, f32_to_f16);  // up to 65504, through all subnormals
  check_ties(0x7f7f, bf16_to_f32, f32_to_bf16);
}

TEST(DType, HalfLimits) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);  // last float below the middle of 65504 and 65536
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e30f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // half of the least subnormal: to even
  EXPECT_EQ(f32_to_f16(0x1.8p-25f), 1);
  EXPECT_EQ(f32_to_f16(1e-40f), 0);  // an f32 subnormal
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(INFINITY), 0x7f80);
  EXPECT_TRUE(
      std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));  // payload only in the dropped bits
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0xff800001u)))));
}

TEST(DType, LoadAndStore) {
  for (DType t : all_types) {
    alignas(8) uint8_t memory[16] = {};
    for (double v : {0.0, 1.0, 3.0, 100.0}) {
      store_element(memory, t, 1, v);
      EXPECT_EQ(load_element(memory, t, 1), t == DType::boolean ? (v != 0) : v) << name_of(t);
    }
  }
  uint8_t memory[8];
  const auto stored = [&memory](DType t, double v) {
    store_element(memory, t, 0, v);
    return load_element(memory, t, 0);
  };
  EXPECT_EQ(stored(DType::i32, -2.9), -2);
  EXPECT_EQ(stored(DType::u8, 300), 44);
  EXPECT_EQ(stored(DType::u8, -1), 255);
  EXPECT_EQ(stored(DType::i8, 200), -56);
  EXPECT_EQ(stored(DType::i32, 4294967296.0 + 7), 7);
  EXPECT_EQ(stored(DType::i64, 0x1p64), 0);
  EXPECT_EQ(stored(DType::i64, -0x1p63), -0x1p63);
  EXPECT_EQ(stored(DType::i64, 1e300), 0);  // a multiple of 2^64
  EXPECT_EQ(stored(DType::i32, NAN), 0);
  EXPECT_EQ(stored(DType::boolean, 0.25), 1);
  EXPECT_EQ(stored(DType::boolean, NAN), 1);
  EXPECT_EQ(stored(DType::f16, 0.1), 0.0999755859375);
  EXPECT_EQ(stored(DType::bf16, 0.1), 0.10009765625);
  EXPECT_EQ(stored(DType::f64, 0.1), 0.1);
}

TEST(DType, Arithmetic) {
  for (DType t : all_types) {
    const DType a = arith(t);
    EXPECT_EQ(arith(a), a);
    EXPECT_EQ(is_float(a), is_float(t));
  }
  EXPECT_EQ(arith(DType::bf16), DType::f32);
  EXPECT_EQ(arith(DType::u8), DType::i32);
  EXPECT_EQ(arith(DType::boolean), DType::boolean);
}

// The table of docs/types.md, which is torch.promote_types but for u8 with i8 (int16 there).
TEST(DType, PromotionTable) {
  const char* const table[9][9] = {{"f32", "f32", "f32", "f64", "f32", "f32", "f32", "f32", "f32"},
                                   {"f32", "f16", "f32", "f64", "f16", "f16", "f16", "f16", "f16"},
                                   {"f32", "f32", "bf16", "f64", "bf16", "bf16", "bf16", "bf16", "bf16"},
                                   {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
                                   {"f32", "f16", "bf16", "f64", "i8", "i32", "i32", "i64", "i8"},
                                   {"f32", "f16", "bf16", "f64", "i32", "u8", "i32", "i64", "u8"},
                                   {"f32", "f16", "bf16", "f64", "i32", "i32", "i32", "i64", "i32"},
                                   {"f32", "f16", "bf16", "f64", "i64", "i64", "i64", "i64", "i64"},
                                   {"f32", "f16", "bf16", "f64", "i8", "u8", "i32", "i64", "bool"}};
  for (int i = 0; i < dtype_count; ++i) {
    for (int j = 0; j < dtype_count; ++j) {
      EXPECT_EQ(name_of(promote(all_types[i], all_types[j])), table[i][j])
          << name_of(all_types[i]) << " " << name_of(all_types[j]);
      EXPECT_EQ(promote(all_types[i], all_types[j]), promote(all_types[j], all_types[i]));
    }
  }
}

}  // namespace
}  // namespace heddle
