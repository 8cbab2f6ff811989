// Instructions on numbers against C++ of the same meaning, lane by lane.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ptx/ptx_test.h"

namespace heddle::ptx {
namespace {

constexpr size_t elements = 999;  // no multiple of a warp

template <class T, class Oracle>
void check2(const std::string& opcode, const Oracle& oracle, uint64_t seed = 1) {
  const auto a = numbers<T>(elements, seed), b = numbers<T>(elements, seed + 100);
  using D = decltype(oracle(T{}, T{}));
  const auto d = compute<D>(opcode + " %d, %a, %b;", a, b);
  for (size_t i = 0; i < elements; ++i)
    EXPECT_TRUE(same_value(d[i], oracle(a[i], b[i]))) << opcode << " " << +a[i] << " " << +b[i];
}
template <class T, class Oracle>
void check1(const std::string& opcode, const Oracle& oracle) {
  const auto a = numbers<T>(elements, 5);
  using D = decltype(oracle(T{}));
  const auto d = compute<D>(opcode + " %d, %a;", a);
  for (size_t i = 0; i < elements; ++i) EXPECT_TRUE(same_value(d[i], oracle(a[i]))) << opcode << " " << +a[i];
}
template <class T, class Oracle>
void check3(const std::string& opcode, const Oracle& oracle) {
  const auto a = numbers<T>(elements, 7), b = numbers<T>(elements, 8), c = numbers<T>(elements, 9);
  const auto d = compute<T>(opcode + " %d, %a, %b, %c;", a, b, c);
  for (size_t i = 0; i < elements; ++i)
    EXPECT_TRUE(same_value(d[i], static_cast<T>(oracle(a[i], b[i], c[i]))))
        << opcode << " " << +a[i] << " " << +b[i] << " " << +c[i];
}

TEST(PtxIntegers, SumsAndProductsWrap) {
  check2<uint32_t>("add.u32", [](uint32_t a, uint32_t b) { return a + b; });
  check2<uint16_t>("add.s16", [](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a + b); });
  check2<uint64_t>("sub.s64", [](uint64_t a, uint64_t b) { return a - b; });
  check2<uint32_t>("mul.lo.s32", [](uint32_t a, uint32_t b) { return a * b; });
  check2<uint16_t>("mul.lo.u16", [](uint16_t a, uint16_t b) { return static_cast<uint16_t>(uint32_t{a} * b); });
  check2<uint32_t>("mul.hi.u32", [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); });
  check2<int32_t>("mul.hi.s32", [](int32_t a, int32_t b) { return static_cast<int32_t>(int64_t{a} * b >> 32); });
  check2<uint32_t>("mul.wide.u32", [](uint32_t a, uint32_t b) { return uint64_t{a} * b; });
  check2<int32_t>("mul.wide.s32", [](int32_t a, int32_t b) { return int64_t{a} * b; });
  check2<int16_t>("mul.wide.s16", [](int16_t a, int16_t b) { return int32_t{a} * b; });
  check3<uint32_t>("mad.lo.u32", [](uint32_t a, uint32_t b, uint32_t c) { return a * b + c; });
  check3<int32_t>("mad.hi.s32", [](int32_t a, int32_t b, int32_t c) {
    return static_cast<uint32_t>(int64_t{a} * b >> 32) + static_cast<uint32_t>(c);
  });
}

// The upper half of 64 x 64 bits, by schoolbook on halves.
uint64_t upper_half(uint64_t a, uint64_t b) {
  const uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  const uint64_t middle = (al * bl >> 32) + (ah * bl & 0xffffffffu) + (al * bh & 0xffffffffu);
  return ah * bh + (ah * bl >> 32) + (al * bh >> 32) + (middle >> 32);
}
TEST(PtxIntegers, UpperHalvesOf64Bits) { check2<uint64_t>("mul.hi.u64", upper_half); }

TEST(PtxIntegers, WideMultiplyAdd) {
  const auto a = numbers<int32_t>(elements, 1), b = numbers<int32_t>(elements, 2);
  const auto c = numbers<int64_t>(elements, 3);
  const auto d = compute<int64_t>("mad.wide.s32 %d, %a, %b, %c;", a, b, c);
  for (size_t i = 0; i < elements; ++i)
    EXPECT_EQ(d[i], static_cast<int64_t>(static_cast<uint64_t>(int64_t{a[i]} * b[i]) + static_cast<uint64_t>(c[i])));
}

TEST(PtxIntegers, QuotientsAndRemainders) {
  check2<uint32_t>("div.u32", [](uint32_t a, uint32_t b) { return b ? a / b : ~0u; });
  check2<uint32_t>("rem.u32", [](uint32_t a, uint32_t b) { return b ? a % b : a; });
  check2<int32_t>("div.s32", [](int32_t a, int32_t b) { return b ? static_cast<int32_t>(int64_t{a} / b) : -1; });
  check2<int32_t>("rem.s32", [](int32_t a, int32_t b) { return b ? static_cast<int32_t>(int64_t{a} % b) : a; });
  check2<uint64_t>("div.u64", [](uint64_t a, uint64_t b) { return b ? a / b : ~0ull; });
}

TEST(PtxIntegers, MinimumMaximumMagnitude) {
  check2<int32_t>("min.s32", [](int32_t a, int32_t b) { return std::min(a, b); });
  check2<uint32_t>("max.u32", [](uint32_t a, uint32_t b) { return std::max(a, b); });
  check2<int64_t>("max.s64", [](int64_t a, int64_t b) { return std::max(a, b); });
  check1<int32_t>("abs.s32", [](int32_t a) {
    return static_cast<int32_t>(a < 0 ? 0u - static_cast<uint32_t>(a) : static_cast<uint32_t>(a));
  });
  check1<uint32_t>("neg.s32", [](uint32_t a) { return 0u - a; });
}

TEST(PtxIntegers, Bits) {
  check2<uint32_t>("and.b32", [](uint32_t a, uint32_t b) { return a & b; });
  check2<uint64_t>("or.b64", [](uint64_t a, uint64_t b) { return a | b; });
  check2<uint16_t>("xor.b16", [](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a ^ b); });
  check1<uint32_t>("not.b32", [](uint32_t a) { return ~a; });
  check1<uint32_t>("popc.b32", [](uint32_t a) {
    uint32_t count = 0;
    for (; a; a &= a - 1) ++count;
    return count;
  });
  check1<uint64_t>("clz.b64", [](uint64_t a) {
    uint32_t count = 64;
    for (; a; a >>= 1) --count;
    return count;
  });
  check1<uint32_t>("brev.b32", [](uint32_t a) {
    uint32_t r = 0;
    for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
    return r;
  });
  check1<int32_t>("bfind.s32", [](int32_t a) {
    const uint32_t u = a < 0 ? ~static_cast<uint32_t>(a) : static_cast<uint32_t>(a);
    for (uint32_t i = 32; i-- > 0;) {
      if (u >> i & 1) return i;
    }
    return 0xffffffffu;
  });
}

// Amounts up to the width and far above it.
TEST(PtxIntegers, ShiftsClamp) {
  auto by = numbers<uint32_t>(elements, 3);
  for (size_t i = 0; i < elements; i += 2) by[i] %= 70;
  const auto a = numbers<uint32_t>(elements, 4);
  const auto left = compute<uint32_t>("shl.b32 %d, %a, %b;", a, by),
             right = compute<uint32_t>("shr.u32 %d, %a, %b;", a, by),
             sign = compute<uint32_t>("shr.s32 %d, %a, %b;", a, by);
  const auto wide = numbers<int64_t>(elements, 5);
  const auto wide_sign = compute<int64_t>("shr.s64 %d, %a, %b;", wide, by);
  for (size_t i = 0; i < elements; ++i) {
    const uint32_t s = by[i];
    EXPECT_EQ(left[i], s > 31 ? 0u : static_cast<uint32_t>(uint64_t{a[i]} << s));
    EXPECT_EQ(right[i], s > 31 ? 0u : a[i] >> s);
    EXPECT_EQ(static_cast<int32_t>(sign[i]),
              static_cast<int32_t>(
                  std::floor(static_cast<double>(static_cast<int32_t>(a[i])) / std::pow(2.0, std::min(s, 40u)))));
    EXPECT_EQ(wide_sign[i], s > 63 ? (wide[i] < 0 ? -1 : 0) : wide[i] >> s);
  }
}

TEST(PtxIntegers, FunnelShifts) {
  const auto a = numbers<uint32_t>(elements, 6), b = numbers<uint32_t>(elements, 7);
  auto by = numbers<uint32_t>(elements, 8);
  for (size_t i = 0; i < elements; i += 2) by[i] %= 40;
  const auto wrap = compute<uint32_t>("shf.l.wrap.b32 %d, %a, %b, %c;", a, b, by),
             clamp = compute<uint32_t>("shf.r.clamp.b32 %d, %a, %b, %c;", a, b, by);
  for (size_t i = 0; i < elements; ++i) {
    const uint32_t w = by[i] % 32, c = std::min(by[i], 32u);
    EXPECT_EQ(wrap[i], w == 0 ? b[i] : b[i] << w | a[i] >> (32 - w));
    EXPECT_EQ(clamp[i], c == 0 ? a[i] : c == 32 ? b[i] : b[i] << (32 - c) | a[i] >> c);
  }
}

// A bit at a time, as the manual's text has it.
TEST(PtxIntegers, Fields) {
  const auto a = numbers<uint32_t>(elements, 6), b = numbers<uint32_t>(elements, 7);
  auto at = numbers<uint32_t>(elements, 8);
  for (uint32_t& x : at) x %= 45;
  for (const uint32_t length : {0u, 1u, 7u, 31u, 32u, 40u}) {
    const std::string l = std::to_string(length);
    const auto u = compute<uint32_t>("bfe.u32 %d, %a, %c, " + l + ";", a, b, at),
               s = compute<uint32_t>("bfe.s32 %d, %a, %c, " + l + ";", a, b, at),
               in = compute<uint32_t>("bfi.b32 %d, %a, %b, %c, " + l + ";", a, b, at);
    for (size_t i = 0; i < elements; ++i) {
      uint32_t want_u = 0, want_s = 0, want_in = b[i];
      const uint32_t sign = length == 0 ? 0 : a[i] >> std::min(at[i] + length - 1, 31u) & 1;
      for (uint32_t k = 0; k < 32; ++k) {
        const bool inside = k < length && at[i] + k < 32;
        want_u |= (inside ? a[i] >> (at[i] + k) & 1 : 0u) << k;
        want_s |= (inside ? a[i] >> (at[i] + k) & 1 : sign) << k;
        if (inside) want_in = (want_in & ~(1u << (at[i] + k))) | (a[i] >> k & 1) << (at[i] + k);
      }
      EXPECT_EQ(u[i], want_u) << a[i] << " " << at[i] << " " << length;
      EXPECT_EQ(s[i], length == 0 ? 0 : want_s) << a[i] << " " << at[i] << " " << length;
      EXPECT_EQ(in[i], want_in);
    }
  }
}

TEST(PtxIntegers, BytesAndTables) {
  check3<uint32_t>("prmt.b32", [](uint32_t a, uint32_t b, uint32_t c) {
    uint8_t bytes[8], r[4];
    std::memcpy(bytes, &a, 4);
    std::memcpy(bytes + 4, &b, 4);
    for (int i = 0; i < 4; ++i) {
      const uint32_t s = c >> (4 * i) & 15;
      r[i] = s < 8 ? bytes[s] : static_cast<uint8_t>(static_cast<int8_t>(bytes[s - 8]) < 0 ? 255 : 0);
    }
    std::memcpy(&a, r, 4);
    return a;
  });
  const auto a = numbers<uint32_t>(elements, 1), b = numbers<uint32_t>(elements, 2), c = numbers<uint32_t>(elements, 3);
  const auto majority = compute<uint32_t>("lop3.b32 %d, %a, %b, %c, 0xE8;", a, b, c);
  for (size_t i = 0; i < elements; ++i) EXPECT_EQ(majority[i], (a[i] & b[i]) | (a[i] & c[i]) | (b[i] & c[i]));
  check3<uint32_t>("dp4a.s32.u32", [](uint32_t x, uint32_t y, uint32_t z) {
    int64_t sum = static_cast<int32_t>(z);
    for (int i = 0; i < 32; i += 8) sum += int64_t{static_cast<int8_t>(x >> i)} * static_cast<uint8_t>(y >> i);
    return static_cast<uint32_t>(sum);
  });
}

// 128 bits from words of 64 and back.
TEST(PtxIntegers, Carries) {
  const auto a = numbers<uint64_t>(elements, 1), b = numbers<uint64_t>(elements, 2), c = numbers<uint64_t>(elements, 3);
  const auto high = compute<uint64_t>("add.cc.u64 %l0, %a, %b;\naddc.u64 %d, %c, 5;", a, b, c),
             borrow = compute<uint64_t>("sub.cc.u64 %l0, %a, %b;\nsubc.u64 %d, %c, 0;", a, b, c),
             product = compute<uint64_t>("mad.lo.cc.u64 %l0, %a, %b, %c;\nmadc.hi.u64 %d, %a, %b, 0;", a, b, c);
  for (size_t i = 0; i < elements; ++i) {
    EXPECT_EQ(high[i], c[i] + 5 + (a[i] + b[i] < a[i]));
    EXPECT_EQ(borrow[i], c[i] - (a[i] < b[i]));
    EXPECT_EQ(product[i], upper_half(a[i], b[i]) + (a[i] * b[i] + c[i] < c[i]));
  }
}

// ---- floats ----

TEST(PtxFloats, SumsProductsQuotients) {
  check2<float>("add.f32", [](float a, float b) { return a + b; });
  check2<double>("sub.rn.f64", [](double a, double b) { return a - b; });
  check2<float>("mul.rn.f32", [](float a, float b) { return a * b; });
  check2<float>("div.rn.f32", [](float a, float b) { return a / b; });
  check2<double>("div.rn.f64", [](double a, double b) { return a / b; });
  check3<float>("fma.rn.f32", [](float a, float b, float c) { return std::fma(a, b, c); });
  check3<double>("fma.rn.f64", [](double a, double b, double c) { return std::fma(a, b, c); });
  check1<float>("neg.f32", [](float a) { return -a; });
  check2<float>("copysign.f32", [](float a, float b) { return std::copysign(b, a); });
  check1<double>("abs.f64", [](double a) { return std::fabs(a); });
  check1<float>("sqrt.rn.f32", [](float a) { return std::sqrt(a); });
  check1<float>("rcp.rn.f32", [](float a) { return 1.0f / a; });
}

// The exact sum of two floats fits in the double's rounding error: directed roundings by comparing with it.
TEST(PtxFloats, DirectedRoundings) {
  const auto a = numbers<float>(elements, 1), b = numbers<float>(elements, 2);
  const auto down = compute<float>("mul.rm.f32 %d, %a, %b;", a, b), up = compute<float>("mul.rp.f32 %d, %a, %b;", a, b),
             zero = compute<float>("mul.rz.f32 %d, %a, %b;", a, b);
  for (size_t i = 0; i < elements; ++i) {
    const double exact = static_cast<double>(a[i]) * b[i];  // 48 bits
    if (!std::isfinite(exact)) continue;
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_LE(down[i], exact);
    EXPECT_GE(up[i], exact);
    EXPECT_TRUE(exact == down[i] || std::nextafterf(down[i], infinity) > exact);
    EXPECT_TRUE(exact == up[i] || std::nextafterf(up[i], -infinity) < exact);
    EXPECT_TRUE(same_value(std::fabs(zero[i]), std::min(std::fabs(down[i]), std::fabs(up[i]))));
  }
}

TEST(PtxFloats, FlushAndSaturate) {
  const auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
  check2<float>("mul.ftz.f32", [&](float a, float b) { return flush(flush(a) * flush(b)); });
  check2<float>("add.sat.f32", [](float a, float b) {
    return std::isnan(a + b) ? 0.0f : std::fmin(std::fmax(a + b, 0.0f), 1.0f) + 0.0f;
  });
}

TEST(PtxFloats, MinimumAndMaximumOfNan) {
  const auto lower = [](float a, float b) { return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b; };
  const float nan = std::nanf("");
  check2<float>("min.f32", [&](float a, float b) { return std::isnan(a) ? b : std::isnan(b) ? a : lower(a, b); });
  check2<float>("min.NaN.f32", [&](float a, float b) { return std::isnan(a) || std::isnan(b) ? nan : lower(a, b); });
  check2<double>("max.f64", [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
  });
}

// Within two units in the last place of the function.
template <class Oracle>
void check_near(const std::string& opcode, const Oracle& oracle, double low, double high) {
  std::vector<float> a(elements);
  for (size_t i = 0; i < elements; ++i)
    a[i] = static_cast<float>(low + (high - low) * static_cast<double>(i) / elements);
  const auto d = compute<float>(opcode + " %d, %a;", a);
  for (size_t i = 0; i < elements; ++i) {
    const double want = oracle(static_cast<double>(a[i]));
    EXPECT_NEAR(d[i], want, std::fabs(want) * 0x1p-22 + 0x1p-30) << opcode << " " << a[i];
  }
}
TEST(PtxFloats, Functions) {
  check_near(
      "ex2.approx.ftz.f32", [](double x) { return std::pow(2.0, x); }, -20, 20);
  check_near(
      "lg2.approx.f32", [](double x) { return std::log(x) / std::log(2.0); }, 0.01, 300);
  check_near(
      "sin.approx.f32", [](double x) { return std::sin(x); }, -3, 3);
  check_near(
      "cos.approx.f32", [](double x) { return std::cos(x); }, -3, 3);
  check_near(
      "rsqrt.approx.f32", [](double x) { return std::pow(x, -0.5); }, 0.01, 300);
  check_near(
      "tanh.approx.f32", [](double x) { return std::tanh(x); }, -5, 5);
  check_near(
      "sqrt.approx.ftz.f32", [](double x) { return std::pow(x, 0.5); }, 0.01, 300);
}
TEST(PtxFloats, ReciprocalOfTheUpperHalf) {
  const auto d = compute<double>("rcp.approx.ftz.f64 %d, %a;", std::vector<double>{3.0, -7.0, 0.0, 1e-310});
  EXPECT_NEAR(d[0], 1.0 / 3, 0x1p-21);
  EXPECT_EQ(std::bit_cast<uint64_t>(d[0]) & 0xffffffffu, 0u);
  EXPECT_NEAR(d[1], -1.0 / 7, 0x1p-22);
  EXPECT_TRUE(std::isinf(d[2]) && std::isinf(d[3]));
}
// Without .ftz the operation has all bits: the device's rsqrt() in double is this instruction alone.
TEST(PtxFloats, ReciprocalRootOfAllBits) {
  const auto d = compute<double>("rsqrt.approx.f64 %d, %a;", std::vector<double>{3.0, 0.1, 0.0, 0x1p-1060, -1.0});
  EXPECT_NEAR(d[0], 1 / std::sqrt(3.0), 0x1p-52);
  EXPECT_NEAR(d[1], 1 / std::sqrt(0.1), 0x1p-50);
  EXPECT_TRUE(std::isinf(d[2]));
  EXPECT_EQ(d[3], 0x1p530);
  EXPECT_TRUE(std::isnan(d[4]));
  const auto upper = compute<double>("rsqrt.approx.ftz.f64 %d, %a;", std::vector<double>{3.0});
  EXPECT_EQ(std::bit_cast<uint64_t>(upper[0]) & 0xffffffffu, 0u);
}

// ---- comparisons ----

TEST(PtxCompare, Predicates) {
  const auto select = [](const char* how) {
    return std::string("setp.") + how + " %p, %a, %b;\nselp.u32 %d, 1, 0, %p;";
  };
  const auto a = numbers<float>(elements, 1), b = numbers<float>(elements, 2);
  const auto x = numbers<int32_t>(elements, 3), y = numbers<int32_t>(elements, 4);
  const auto lt = compute<uint32_t>(select("lt.f32"), a, b), geu = compute<uint32_t>(select("geu.f32"), a, b),
             ne = compute<uint32_t>(select("ne.f32"), a, b), neu = compute<uint32_t>(select("neu.f32"), a, b),
             nan = compute<uint32_t>(select("nan.f32"), a, b), lo = compute<uint32_t>(select("lt.u32"), x, y),
             gt = compute<uint32_t>(select("gt.s32"), x, y);
  for (size_t i = 0; i < elements; ++i) {
    const bool unordered = std::isnan(a[i]) || std::isnan(b[i]);
    EXPECT_EQ(lt[i], std::isless(a[i], b[i]));
    EXPECT_EQ(geu[i], !std::isless(a[i], b[i]));
    EXPECT_EQ(ne[i], std::islessgreater(a[i], b[i]));
    EXPECT_EQ(neu[i], unordered || std::islessgreater(a[i], b[i]));
    EXPECT_EQ(nan[i], unordered);
    EXPECT_EQ(lo[i], static_cast<uint32_t>(x[i]) < static_cast<uint32_t>(y[i]));
    EXPECT_EQ(gt[i], x[i] > y[i]);
  }
}
TEST(PtxCompare, CombinedAndBothTargets) {
  const auto a = numbers<uint32_t>(elements, 1), b = numbers<uint32_t>(elements, 2);
  const auto d = compute<uint32_t>(
      "setp.ne.u32 %q, %a, 0;\nsetp.lt.and.u32 %p|%q, %a, %b, !%q;\nselp.u32 %t0, 1, 0, %p;\nselp.u32 %t1, 2, 0, "
      "%q;\nor.b32 %d, %t0, %t1;",
      a, b);
  for (size_t i = 0; i < elements; ++i) EXPECT_EQ(d[i], a[i] != 0 ? 0u : a[i] < b[i] ? 1u : 2u);
}

TEST(PtxCompare, PredicatesAreBits) {
  const auto a = numbers<uint32_t>(elements, 1);
  const auto d = compute<uint32_t>(
      "mov.pred %q, -1;\nsetp.lt.u32 %p, %a, 50;\nxor.pred %p, %p, %q;\nnot.pred %q, %q;\nor.pred %p, %p, "
      "%q;\nselp.u32 %d, 1, 0, "
      "%p;",
      a);
  for (size_t i = 0; i < elements; ++i) EXPECT_EQ(d[i], a[i] >= 50);
}

}  // namespace
}  // namespace heddle::ptx
