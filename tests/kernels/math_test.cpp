// The dialect's functions on each device, against double precision on the host; conversions of storage types, bit by
// bit.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "heddle/core/base/dtype.h"
#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

// Error in units of the last place of the right result in f32; NaN must meet NaN and infinity infinity.
double ulps(double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : inf;
  const double rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (std::isinf(rounded) || std::isinf(got)) return inf;
  // Devices may flush subnormal numbers to zero.
  const double smallest = std::numeric_limits<float>::min();
  if (std::abs(want) < smallest) return std::abs(got) <= smallest ? 0 : inf;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::abs(got - want) / std::ldexp(1.0, exponent - 24);
}

struct Function {
  const char* text;  // over x, and y
  double bound;      // ulps
  double low, high;  // of x
  std::function<double(double, double)> want;
};

double half_even(double x) { return std::nearbyint(x); }

std::vector<Function> functions() {
  return {
      {"exp(x)", 2, -110, 95, [](double x, double) { return std::exp(x); }},
      {"expm1(x)", 3, -20, 95, [](double x, double) { return std::expm1(x); }},
      {"expm1(x)", 3, -1e-3, 1e-3, [](double x, double) { return std::expm1(x); }},
      {"log(x)", 2, 0, 1e30, [](double x, double) { return std::log(x); }},
      {"log(x)", 2, 0.9, 1.1, [](double x, double) { return std::log(x); }},
      {"log1p(x)", 3, -0.999, 1e5, [](double x, double) { return std::log1p(x); }},
      {"log1p(x)", 3, -1e-4, 1e-4, [](double x, double) { return std::log1p(x); }},
      {"sqrt(x)", 3, 0, 1e10, [](double x, double) { return std::sqrt(x); }},
      {"rsqrt(x)", 4, 1e-10, 1e10, [](double x, double) { return 1 / std::sqrt(x); }},
      {"sin(x)", 3, -900, 900, [](double x, double) { return std::sin(x); }},
      {"cos(x)", 3, -900, 900, [](double x, double) { return std::cos(x); }},
      {"tan(x)", 5, -900, 900, [](double x, double) { return std::tan(x); }},
      {"tanh(x)", 4, -12, 12, [](double x, double) { return std::tanh(x); }},
      {"tanh(x)", 4, -1e-3, 1e-3, [](double x, double) { return std::tanh(x); }},
      {"erf(x)", 3, -5, 5, [](double x, double) { return std::erf(x); }},
      {"erf(x)", 3, -1e-3, 1e-3, [](double x, double) { return std::erf(x); }},
      {"pow(abs(x), y)", 4, -20, 20, [](double x, double y) { return std::pow(std::abs(x), y); }},
      {"atan2(y, x)", 4, -10, 10, [](double x, double y) { return std::atan2(y, x); }},
      {"fmod(x, y)", 0, -100, 100, [](double x, double y) { return std::fmod(x, y); }},
      {"floor(x)", 0, -100, 100, [](double x, double) { return std::floor(x); }},
      {"ceil(x)", 0, -100, 100, [](double x, double) { return std::ceil(x); }},
      {"trunc(x)", 0, -100, 100, [](double x, double) { return std::trunc(x); }},
      {"round(x)", 0, -100, 100, [](double x, double) { return half_even(x); }},
      {"abs(x)", 0, -100, 100, [](double x, double) { return std::abs(x); }},
      {"max(x, y)", 0, -10, 10, [](double x, double y) { return std::max(x, y); }},
      {"min(x, y)", 0, -10, 10, [](double x, double y) { return std::min(x, y); }},
  };
}

class MathTest : public KernelTest {
 protected:
  // Each expression over x and y, for all pairs: one kernel, one output buffer a function after the other.
  std::vector<std::vector<double>> evaluate(const std::vector<std::string>& texts, const std::vector<double>& x,
                                            const std::vector<double>& y, DType dtype = DType::f32) {
    KernelSource s;
    s.name = "math";
    s.buffers = {{"xs", dtype, Access::read}, {"ys", dtype, Access::read}, {"dst", dtype, Access::write}};
    s.constants = {{"N", ConstParam::Type::u32}};
    s.group = {64, 1, 1};
    s.body = "uint i = GROUP_LINEAR * GROUP_SIZE(0) + LOCAL_ID(0);\nif (i < N) {\n";
    s.body += std::string("  ") + (dtype == DType::f64   ? "F64"
                                   : dtype == DType::i32 ? "int"
                                   : dtype == DType::i64 ? "I64"
                                                         : "float");
    s.body += " x = LOAD(xs, i), y = LOAD(ys, i);\n";
    for (size_t f = 0; f < texts.size(); ++f)
      s.body += "  STORE(dst, i + N * " + std::to_string(f) + "u, " + texts[f] + ");\n";
    s.body += "}\n";
    KernelRun r;
    r.arrays["xs"] = KernelArray::of(dtype, x);
    r.arrays["ys"] = KernelArray::of(dtype, y);
    r.arrays["dst"] = KernelArray::zeros(dtype, x.size() * texts.size());
    r.constants["N"] = static_cast<double>(x.size());
    r.groups = {static_cast<uint32_t>((x.size() + 63) / 64), 1, 1};
    const auto all = run(s, r).arrays.at("dst").values();
    std::vector<std::vector<double>> parts;
    for (size_t f = 0; f < texts.size(); ++f)
      parts.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(f * x.size()),
                         all.begin() + static_cast<std::ptrdiff_t>((f + 1) * x.size()));
    return parts;
  }

  // One line per expression of what differs.
  void expect(const std::string& text, double x, double y, double want) { expected_.push_back({text, x, y, want}); }
  void verify(DType dtype = DType::f32) {
    std::vector<std::string> texts;
    for (const auto& e : expected_) {
      if (std::find(texts.begin(), texts.end(), e.text) == texts.end()) texts.push_back(e.text);
    }
    std::vector<double> x, y;
    for (const auto& e : expected_) {
      x.push_back(e.x);
      y.push_back(e.y);
    }
    const auto got = evaluate(texts, x, y, dtype);
    for (size_t i = 0; i < expected_.size(); ++i) {
      const auto& e = expected_[i];
      const size_t f = static_cast<size_t>(std::find(texts.begin(), texts.end(), e.text) - texts.begin());
      const double value = got[f][i];
      const bool same = std::isnan(e.want) ? std::isnan(value) : value == e.want;
      EXPECT_TRUE(same) << e.text << " at x = " << e.x << ", y = " << e.y << " is " << value << ", not " << e.want;
    }
  }

 private:
  struct Expected {
    std::string text;
    double x, y, want;
  };
  std::vector<Expected> expected_;
};

TEST_P(MathTest, Accuracy) {
  uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  };
  const auto all = functions();
  // Functions of one interval share nothing, so each has its own arguments: the kernel computes all of all, and one is
  // looked at.
  std::vector<std::string> texts;
  for (const auto& f : all) texts.push_back(f.text);
  std::vector<double> x, y;
  constexpr size_t count = 1500;
  for (const auto& f : all) {
    for (size_t i = 0; i < count; ++i) {
      double value = f.low + (f.high - f.low) * uniform();
      if (i % 3 == 0) value = std::copysign(std::pow(std::abs(value) + 1e-30, uniform()), value);
      x.push_back(static_cast<float>(std::clamp(value, f.low, f.high)));
      y.push_back(static_cast<float>(8 * uniform() - 4));
    }
  }
  const auto got = evaluate(texts, x, y);
  for (size_t f = 0; f < all.size(); ++f) {
    double worst = 0;
    size_t where = 0;
    for (size_t i = f * count; i < (f + 1) * count; ++i) {
      const double error = ulps(got[f][i], all[f].want(x[i], y[i]));
      if (error > worst) {
        worst = error;
        where = i;
      }
    }
    EXPECT_LE(worst, all[f].bound) << all[f].text << " at x = " << x[where] << ", y = " << y[where] << ": "
                                   << got[f][where];
  }
}

TEST_P(MathTest, SpecialValues) {
  expect("exp(x)", inf, 0, inf);
  expect("exp(x)", -inf, 0, 0);
  expect("exp(x)", 0, 0, 1);
  // The first float whose result is too large; a NaN all of whose bits are ones.
  expect("exp(x)", 88.72283935546875, 0, inf);
  expect("exp(x)", -1e9, 0, 0);
  expect("exp(x)", std::bit_cast<float>(0x7fffffffu), 0, nan);
  expect("expm1(x)", -inf, 0, -1);
  expect("expm1(x)", inf, 0, inf);
  expect("log(x)", 0, 0, -inf);
  expect("log(x)", inf, 0, inf);
  expect("log(x)", -1, 0, nan);
  expect("log1p(x)", -1, 0, -inf);
  expect("log1p(x)", inf, 0, inf);
  expect("log1p(x)", -2, 0, nan);
  expect("tanh(x)", inf, 0, 1);
  expect("tanh(x)", -inf, 0, -1);
  expect("erf(x)", inf, 0, 1);
  expect("erf(x)", -inf, 0, -1);
  expect("sqrt(x)", 4, 0, 2);
  expect("sqrt(x)", -1, 0, nan);
  expect("sin(x)", inf, 0, nan);
  expect("cos(x)", -inf, 0, nan);
  expect("cos(x)", 0, 0, 1);
  expect("pow(x, y)", -2, 3, -8);
  expect("pow(x, y)", -2, 2, 4);
  expect("pow(x, y)", -2, 0.5, nan);
  expect("pow(x, y)", 0, -1, inf);
  expect("pow(x, y)", 0, 2, 0);
  expect("pow(x, y)", nan, 0, 1);
  expect("pow(x, y)", 1, nan, 1);
  expect("pow(x, y)", inf, -1, 0);
  expect("pow(x, y)", -inf, 3, -inf);
  expect("atan2(y, x)", 0, 0, 0);
  expect("atan2(y, x)", -1, 0, static_cast<float>(M_PI));
  expect("fmod(x, y)", 5, -3, 2);
  expect("fmod(x, y)", -5, 3, -2);
  expect("fmod(x, y)", 5, 0, nan);
  expect("fmod(x, y)", 5, inf, 5);
  expect("fmod(x, y)", 1e30, 3, std::fmod(static_cast<double>(1e30f), 3.0));
  expect("MOD(x, y)", -5, 3, 1);
  expect("MOD(x, y)", 5, -3, -1);
  expect("MOD(x, y)", 6, 3, 0);
  expect("round(x)", 0.5, 0, 0);
  expect("round(x)", 1.5, 0, 2);
  expect("round(x)", -2.5, 0, -2);
  for (const char* text :
       {"exp(x)", "expm1(x)", "log(x)", "log1p(x)", "tanh(x)", "erf(x)", "sin(x)", "atan2(y, x)", "fmod(x, y)"})
    expect(text, nan, 2, nan);
  for (const char* text : {"max(x, y)", "min(x, y)"}) {
    expect(text, nan, 1, nan);
    expect(text, 1, nan, nan);
  }
  expect("max(x, y)", -inf, 1, 1);
  expect("min(x, y)", inf, 1, 1);
  for (const auto& [value, is_nan, is_inf] :
       {std::tuple{nan, 1, 0}, {inf, 0, 1}, {-inf, 0, 1}, {1.0, 0, 0}, {0.0, 0, 0}, {3e38, 0, 0}}) {
    expect("(isnan(x) ? 1.0f : 0.0f)", value, 0, is_nan);
    expect("(isinf(x) ? 1.0f : 0.0f)", value, 0, is_inf);
  }
  verify();
}

TEST_P(MathTest, LargeAngles) {
  std::vector<double> x, y;
  for (double a = 1000; a < 3e38; a *= 1.37) x.push_back(static_cast<float>(a)), y.push_back(0);
  const auto got = evaluate({"sin(x)", "cos(x)"}, x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(got[0][i], std::sin(x[i]), 2e-7) << x[i];
    EXPECT_NEAR(got[1][i], std::cos(x[i]), 2e-7) << x[i];
  }
}

TEST_P(MathTest, Integers) {
  const double least = -2147483648.0;
  expect("IDIV(x, y)", 7, -2, -3);
  expect("IDIV(x, y)", -7, 2, -3);
  expect("IDIV(x, y)", 7, 0, 0);
  expect("IDIV(x, y)", least, -1, least);
  expect("IMOD(x, y)", -7, 2, -1);
  expect("IMOD(x, y)", 7, -2, 1);
  expect("IMOD(x, y)", 7, 0, 0);
  expect("IMOD(x, y)", least, -1, 0);
  expect("MOD(x, y)", -7, 3, 2);
  expect("MOD(x, y)", 7, -3, -2);
  expect("MOD(x, y)", 7, 0, 0);
  expect("abs(x)", -5, 0, 5);
  expect("max(x, y)", -5, 3, 3);
  expect("min(x, y)", -5, 3, -5);
  expect("FMA(x, y, x)", -5, 3, -20);
  expect("CAST(int, MULHI(CAST(uint, x), CAST(uint, y)))", 2000000000, 2000000000, std::floor(4e18 / 4294967296.0));
  expect("CAST(int, AS_UINT(CAST(float, x)))", 1, 0, 0x3f800000);
  expect("CAST(int, AS_FLOAT(CAST(uint, x)))", 0x40a00000, 0, 5);
  expect("CAST(int, 2.9f)", 0, 0, 2);
  expect("CAST(int, CAST(bool, x))", 4, 0, 1);
  verify(DType::i32);
}

TEST_P(MathTest, WideTypes) {
  if (caps().f64) {
    expect("sqrt(x) + F64(0.1)", 2, 0, std::sqrt(2.0) + 0.1);
    expect("max(x, y)", nan, 1, nan);
    expect("floor(x)", -1.5, 0, -2);
    expect("round(x)", 2.5, 0, 2);
    expect("abs(x)", -0.1, 0, 0.1);
    expect("(isnan(x) ? F64(1) : F64(0))", nan, 0, 1);
    expect("(isinf(x) ? F64(1) : F64(0))", -inf, 0, 1);
    verify(DType::f64);
  }
  if (caps().f64_math) {
    for (const auto& [text, want] : {std::pair{"exp(x)", std::exp(0.3)},
                                     {"log1p(x)", std::log1p(0.3)},
                                     {"erf(x)", std::erf(0.3)},
                                     {"sin(x)", std::sin(0.3)}}) {
      EXPECT_NEAR(evaluate({text}, {0.3}, {0}, DType::f64)[0][0], want, 1e-15) << text;
    }
  }
}

TEST_P(MathTest, LongIntegers) {
  if (!caps().i64) GTEST_SKIP() << "no i64 on this device";
  expect("x * y + I64(-5)", 3e9, 3, 9e9 - 5);
  expect("IDIV(x, y)", -7e12, 2e12, -3);
  expect("IMOD(x, y)", -7e12, 2e12, -1e12);
  expect("IDIV(x, y)", 7, 0, 0);
  expect("max(x, I64(12345678901234))", 1, 0, 12345678901234.0);
  expect("abs(x)", -9e15, 0, 9e15);
  verify(DType::i64);
}

// Every 16-bit pattern, loaded; and a dense choice of floats, stored.
class StorageTest : public KernelTest {
 protected:
  static KernelSource convert(DType from, DType to) {
    KernelSource s;
    s.name = "convert";
    s.buffers = {{"src", from, Access::read}, {"dst", to, Access::write}};
    s.constants = {{"N", ConstParam::Type::u32}};
    s.group = {64, 1, 1};
    s.body = "uint i = GROUP_LINEAR * GROUP_SIZE(0) + LOCAL_ID(0);\nif (i < N) STORE(dst, i, LOAD(src, i));\n";
    return s;
  }
  KernelArray converted(const KernelArray& from, DType to) {
    KernelRun r;
    r.arrays["src"] = from;
    r.arrays["dst"] = KernelArray::zeros(to, from.size());
    r.constants["N"] = static_cast<double>(from.size());
    r.groups = {static_cast<uint32_t>((from.size() + 63) / 64), 1, 1};
    return run(convert(from.dtype, to), r).arrays.at("dst");
  }
};

TEST_P(StorageTest, LoadsEveryHalf) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    KernelArray all = KernelArray::zeros(dtype, 65536);
    for (uint32_t i = 0; i < 65536; ++i) {
      all.bytes[2 * i] = static_cast<uint8_t>(i);
      all.bytes[2 * i + 1] = static_cast<uint8_t>(i >> 8);
    }
    const KernelArray got = converted(all, DType::f32);
    for (size_t i = 0; i < 65536; ++i) {
      const double want = all[i];
      // bf16 subnormals are f32 subnormals, which a device may flush.
      if (std::abs(want) < std::numeric_limits<float>::min()) continue;
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(got[i], want) << i;
      }
    }
  }
}

TEST_P(StorageTest, StoresToNearestEven) {
  KernelArray floats = KernelArray::zeros(DType::f32, 1 << 17);
  uint32_t bits = 0;
  for (size_t i = 0; i < floats.size(); ++i, bits += 32771) {
    // Exact ties between two halves as well.
    const uint32_t word = i % 4 == 0   ? (bits & 0xffffe000u) | 0x1000u
                          : i % 4 == 1 ? (bits & 0xffff0000u) | 0x8000u
                                       : bits;
    for (size_t b = 0; b < 4; ++b) floats.bytes[4 * i + b] = static_cast<uint8_t>(word >> (8 * b));
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const KernelArray got = converted(floats, dtype);
    for (size_t i = 0; i < floats.size(); ++i) {
      const auto value = static_cast<float>(floats[i]);
      if (std::abs(value) < std::numeric_limits<float>::min()) continue;
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
        continue;
      }
      ASSERT_EQ(got[i], dtype == DType::f16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value))) << value;
    }
  }
}

TEST_P(StorageTest, IntegersWrap) {
  const KernelArray numbers = KernelArray::of(DType::i32, {0, 1, -1, 127, 128, 255, 256, -129, 70000});
  EXPECT_EQ(converted(numbers, DType::i8).values(), (std::vector<double>{0, 1, -1, 127, -128, -1, 0, 127, 112}));
  EXPECT_EQ(converted(numbers, DType::u8).values(), (std::vector<double>{0, 1, 255, 127, 128, 255, 0, 127, 112}));
  const KernelArray small = KernelArray::of(DType::u8, {0, 1, 200, 255});
  EXPECT_EQ(converted(small, DType::i32).values(), (std::vector<double>{0, 1, 200, 255}));
}

HEDDLE_ON_DEVICES(MathTest);
HEDDLE_ON_DEVICES(StorageTest);

}  // namespace
}  // namespace heddle::test
