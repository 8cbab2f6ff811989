// Conversions, and arithmetic of 16 bits, against tables and exact doubles.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ptx/formats.h"
#include "tests/ptx/ptx_test.h"

namespace heddle::ptx {
namespace {

constexpr size_t count = 997;

// All finite values of a format with their bits, ascending: by counting, without a formula for rounding.
struct Value {
  double value;
  uint16_t bits;
};
std::vector<Value> table(int mantissa, int exponents) {
  std::vector<Value> values;
  for (uint32_t bits = 0; bits < static_cast<uint32_t>(exponents) << mantissa; ++bits) {
    const uint32_t e = bits >> mantissa, f = bits & ((1u << mantissa) - 1);
    const int bias = (exponents + 1) / 2 - 1;
    const double v = std::ldexp(static_cast<double>(e ? f + (1u << mantissa) : f),
                                static_cast<int>(std::max(e, 1u)) - bias - mantissa);
    values.push_back({v, static_cast<uint16_t>(bits)});
  }
  return values;
}
// The nearest of the table, ties to even bits; beyond the largest by half a step: infinity.
uint16_t nearest(const std::vector<Value>& t, double v) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0, infinity = static_cast<uint16_t>(t.back().bits + 1);
  if (std::isnan(v)) return 0x7fff;
  v = std::fabs(v);
  const double last = t.back().value, step = last - t[t.size() - 2].value;
  if (v >= last + step / 2) return sign | infinity;
  auto above = std::lower_bound(t.begin(), t.end(), v, [](const Value& x, double y) { return x.value < y; });
  if (above == t.end()) return sign | t.back().bits;
  if (above->value == v || above == t.begin()) return sign | above->bits;
  const auto below = above - 1;
  const double up = above->value - v, down = v - below->value;
  if (up == down) return sign | (above->bits % 2 == 0 ? above->bits : below->bits);
  return sign | (up < down ? above->bits : below->bits);
}
const std::vector<Value>& halves() {
  static const auto t = table(10, 31);
  return t;
}
const std::vector<Value>& brains() {
  static const auto t = table(7, 255);
  return t;
}
double value_in(const std::vector<Value>& t, uint16_t bits) {
  const uint16_t magnitude = bits & 0x7fff;
  const double v = magnitude < t.size()    ? t[magnitude].value
                   : magnitude == t.size() ? std::numeric_limits<double>::infinity()
                                           : std::nan("");
  return bits & 0x8000 ? -v : v;
}
bool same_narrow(const std::vector<Value>& t, uint16_t a, uint16_t b) {
  return a == b || (std::isnan(value_in(t, a)) && std::isnan(value_in(t, b)));
}

std::vector<float> around_halves() {
  std::vector<float> values = numbers<float>(count, 3);
  for (size_t i = 0; i < count; i += 2) {  // ties, and next to ties
    const auto& t = halves();
    const size_t at = (i * 7919) % (t.size() - 1);
    const auto middle = static_cast<float>((t[at].value + t[at + 1].value) / 2);
    values[i] = i % 3 == 0 ? middle : std::nextafterf(middle, i % 3 == 1 ? 0.0f : 1e30f);
    if (i % 4 == 0) values[i] = -values[i];
  }
  return values;
}

TEST(PtxConvert, FloatsTo16Bits) {
  const auto a = around_halves();
  const auto half = compute<uint16_t>("cvt.rn.f16.f32 %d, %a;", a),
             brain = compute<uint16_t>("cvt.rn.bf16.f32 %d, %a;", a),
             cut = compute<uint16_t>("cvt.rz.f16.f32 %d, %a;", a);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(same_narrow(halves(), half[i], nearest(halves(), a[i]))) << a[i];
    EXPECT_TRUE(same_narrow(brains(), brain[i], nearest(brains(), a[i]))) << a[i];
    if (std::isfinite(a[i])) {
      EXPECT_LE(std::fabs(value_in(halves(), cut[i])), std::fabs(a[i]));
      EXPECT_GE(half[i] & 0x7fff, cut[i] & 0x7fff);
      EXPECT_LE((half[i] & 0x7fff) - (cut[i] & 0x7fff), 1);
    }
  }
  std::vector<uint16_t> bits(count);
  for (size_t i = 0; i < count; ++i) bits[i] = static_cast<uint16_t>(i * 4099);
  const auto wide = compute<float>("cvt.f32.f16 %d, %a;", bits),
             wide_brain = compute<float>("cvt.f32.bf16 %d, %a;", bits);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(same_value(wide[i], static_cast<float>(value_in(halves(), bits[i]))));
    EXPECT_TRUE(same_value(wide_brain[i], static_cast<float>(value_in(brains(), bits[i]))));
  }
}

TEST(PtxConvert, Tf32AndPairs) {
  const auto a = numbers<float>(count, 3), b = numbers<float>(count, 4);
  const auto tf = compute<uint32_t>("cvt.rna.tf32.f32 %d, %a;", a);
  const auto pair = compute<uint32_t>("cvt.rn.f16x2.f32 %d, %a, %b;", a, b);
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(a[i])) {
      const auto bits = std::bit_cast<uint32_t>(a[i]);
      EXPECT_EQ(tf[i], (bits + 0x1000u) & ~0x1fffu);  // half a step away from zero, then cut
    }
    EXPECT_TRUE(same_narrow(halves(), static_cast<uint16_t>(pair[i] >> 16), nearest(halves(), a[i])));
    EXPECT_TRUE(same_narrow(halves(), static_cast<uint16_t>(pair[i]), nearest(halves(), b[i])));
  }
}

TEST(PtxConvert, ArithmeticOf16BitsRoundsOnce) {
  std::vector<uint16_t> a(count), b(count), c(count);
  std::mt19937 random(5);
  for (size_t i = 0; i < count; ++i)
    a[i] = static_cast<uint16_t>(random()), b[i] = static_cast<uint16_t>(random()),
    c[i] = static_cast<uint16_t>(random());
  const auto sum = compute<uint16_t>("add.rn.f16 %d, %a, %b;", a, b),
             product = compute<uint16_t>("mul.rn.bf16 %d, %a, %b;", a, b),
             fused = compute<uint16_t>("fma.rn.f16 %d, %a, %b, %c;", a, b, c);
  for (size_t i = 0; i < count; ++i) {
    const double x = value_in(halves(), a[i]), y = value_in(halves(), b[i]), z = value_in(halves(), c[i]);
    EXPECT_TRUE(same_narrow(halves(), sum[i], nearest(halves(), x + y)));
    EXPECT_TRUE(
        same_narrow(brains(), product[i], nearest(brains(), value_in(brains(), a[i]) * value_in(brains(), b[i]))));
    // Of a product and a sum of halves, 80 bits hold every one: a long double's 64 hold those of near exponents.
    const long double exact = static_cast<long double>(x) * y + z;
    if (static_cast<long double>(static_cast<double>(exact)) == exact || std::isnan(x * y + z)) {
      EXPECT_TRUE(same_narrow(halves(), fused[i], nearest(halves(), static_cast<double>(exact))));
    }
  }
  // 2^-24 * 2^-24 + 1 + 2^-11: a double loses the product and sees a tie to even; the product says up.
  const auto corner = compute<uint16_t>("fma.rn.f16 %d, %a, %b, %c;", std::vector<uint16_t>{1},
                                        std::vector<uint16_t>{1}, std::vector<uint16_t>{0x3c00});
  EXPECT_EQ(corner[0], 0x3c00);
  EXPECT_EQ(F16::round(fused_to_odd(0x1p-24, 0x1p-24, 1 + 0x1p-11)), 0x3c01u);
  EXPECT_EQ(F16::round(1 + 0x1p-11), 0x3c00u);
}

TEST(PtxConvert, FloatsToIntegers) {
  const auto a = numbers<float>(count, 1);
  const auto b = numbers<double>(count, 2);
  const auto zero = compute<int32_t>("cvt.rzi.s32.f32 %d, %a;", a);
  const auto even = compute<int32_t>("cvt.rni.s32.f32 %d, %a;", a);
  const auto down = compute<uint32_t>("cvt.rmi.u32.f32 %d, %a;", a);
  const auto wide = compute<int64_t>("cvt.rzi.s64.f64 %d, %a;", b);
  for (size_t i = 0; i < count; ++i) {
    const auto clamp = [&](double v, double low, double high) {
      return std::isnan(v) ? 0.0 : std::clamp(v, low, high);
    };
    EXPECT_EQ(zero[i], clamp(std::trunc(a[i]), -0x1p31, 0x1p31 - 1)) << a[i];
    EXPECT_EQ(even[i], clamp(std::rint(a[i]), -0x1p31, 0x1p31 - 1)) << a[i];
    EXPECT_EQ(down[i], clamp(std::floor(a[i]), 0, 0x1p32 - 1)) << a[i];
    const int64_t want = std::isnan(b[i])  ? std::numeric_limits<int64_t>::min()
                         : b[i] >= 0x1p63  ? std::numeric_limits<int64_t>::max()
                         : b[i] <= -0x1p63 ? std::numeric_limits<int64_t>::min()
                                           : static_cast<int64_t>(b[i]);
    EXPECT_EQ(wide[i], want) << b[i];
  }
}

TEST(PtxConvert, IntegersToFloatsAndIntegers) {
  const auto a = numbers<uint64_t>(count, 1);
  const auto nearest_even = compute<float>("cvt.rn.f32.u64 %d, %a;", a),
             cut = compute<float>("cvt.rz.f32.u64 %d, %a;", a);
  const auto narrow = compute<uint32_t>("cvt.u32.u64 %d, %a;", a),
             byte = compute<uint32_t>("cvt.u32.u8 %d, %b;", a, numbers<uint32_t>(count, 4)),
             sign = compute<uint32_t>("cvt.s32.s8 %d, %b;", a, numbers<uint32_t>(count, 4));
  const auto of_byte = numbers<uint32_t>(count, 4);
  const auto saturated = compute<uint16_t>("cvt.sat.s8.s32 %d, %a;", of_byte);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(nearest_even[i], static_cast<float>(a[i]));
    EXPECT_LE(static_cast<long double>(cut[i]), static_cast<long double>(a[i]));
    EXPECT_GT(static_cast<long double>(std::nextafterf(cut[i], 3e38f)), static_cast<long double>(a[i]));
    EXPECT_EQ(narrow[i], static_cast<uint32_t>(a[i]));
    EXPECT_EQ(byte[i], of_byte[i] & 0xff);
    EXPECT_EQ(sign[i], static_cast<uint32_t>(int32_t{static_cast<int8_t>(of_byte[i])}));
    EXPECT_EQ(static_cast<int16_t>(saturated[i]), std::clamp(static_cast<int32_t>(of_byte[i]), -128, 127));
  }
}

TEST(PtxConvert, FloatsToFloats) {
  const auto a = numbers<double>(count, 1);
  const auto b = numbers<float>(count, 2);
  const auto narrow = compute<float>("cvt.rn.f32.f64 %d, %a;", a), up = compute<float>("cvt.rp.f32.f64 %d, %a;", a);
  const auto wide = compute<double>("cvt.f64.f32 %d, %a;", b);
  const auto integral = compute<float>("cvt.rni.f32.f32 %d, %a;", b),
             floor = compute<float>("cvt.rmi.f32.f32 %d, %a;", b), unit = compute<float>("cvt.sat.f32.f32 %d, %a;", b);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(same_value(narrow[i], static_cast<float>(a[i])));
    if (!std::isnan(a[i])) {
      EXPECT_GE(up[i], a[i]);
    }
    EXPECT_TRUE(same_value(wide[i], static_cast<double>(b[i])));
    EXPECT_TRUE(same_value(integral[i], std::rint(b[i])));
    EXPECT_TRUE(same_value(floor[i], std::floor(b[i])));
    EXPECT_EQ(unit[i], std::isnan(b[i]) ? 0.0f : std::clamp(b[i], 0.0f, 1.0f));
  }
}

TEST(PtxConvert, PartsOfWords) {
  const auto a = numbers<uint64_t>(count, 1);
  const auto b = numbers<uint32_t>(count, 2), c = numbers<uint32_t>(count, 3);
  const auto high = compute<uint32_t>("mov.b64 {_, %d}, %a;", a);
  const auto both = compute<uint64_t>("mov.b64 %d, {%b, %c};", a, b, c);
  const auto quarter = compute<uint16_t>("mov.b64 {%h0, %h1, %d, %h3}, %a;", a);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(high[i], a[i] >> 32);
    EXPECT_EQ(both[i], uint64_t{c[i]} << 32 | b[i]);
    EXPECT_EQ(quarter[i], static_cast<uint16_t>(a[i] >> 32));
  }
}

}  // namespace
}  // namespace heddle::ptx
