// f16 and bf16: numbers beside tensors enter in f32, each recorded operation rounds once, and so values do not depend
// on what is fused, on the device or on EagerScope (docs/numbers.md). The oracle rounds floats by itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/excess_precision.h"
#include "tests/support/noise.h"
#include "tests/support/value_test.h"

namespace heddle::tests {
namespace {

// To the nearest of f16 or bf16, halves to even, written apart from the library's.
float nearest(float value, DType dtype) {
  if (!std::isfinite(value) || value == 0) return value;
  const int digits = dtype == DType::f16 ? 11 : 8, least = dtype == DType::f16 ? -24 : -133;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value) - digits + 1, least));
  const double rounded = std::nearbyint(value / unit) * unit, limit = dtype == DType::f16 ? 65504 : 0x1.FEp127;
  return static_cast<float>(std::abs(rounded) > limit ? std::copysign(INFINITY, rounded) : rounded);
}

class HalfPrecision : public ValueTest {
 protected:
  Tensor half(const std::vector<float>& values, DType dtype = DType::f16) {
    return cast(Tensor::from_vector(values, Shape{static_cast<int64_t>(values.size())}, &device()), dtype);
  }
  double first(const Tensor& x) { return x.to_doubles().at(0); }
};

TEST_P(HalfPrecision, NumbersEnterInF32) {
  const auto x = [&](float v) { return half({v}); };
  EXPECT_EQ(first(x(0.5f) * 70000), 35008);
  EXPECT_EQ(first(70000 * x(0.5f)), 35008);
  EXPECT_NEAR(first(x(1000) * 1e-8), 1.0014e-5, 6e-8);
  EXPECT_EQ(first(x(-60000) + 70000), 10000);
  EXPECT_EQ(first(x(60000) - 70000), -10000);
  EXPECT_EQ(first(70000 - x(60000)), 10000);
  EXPECT_EQ(first(x(60000) / 70000), nearest(60000.0f / 70000.0f, DType::f16));
  EXPECT_EQ(first(70000 / x(60000)), nearest(70000.0f / 60000.0f, DType::f16));
  EXPECT_EQ(first(x(1e-4f) / 1e-8), nearest(nearest(1e-4f, DType::f16) / 1e-8f, DType::f16));
  EXPECT_EQ(first(pow(x(2), 10.001)), nearest(std::pow(2.0f, 10.001f), DType::f16));
  EXPECT_EQ(first(half({3}, DType::bf16) * 1.0039), nearest(3 * 1.0039f, DType::bf16));
  EXPECT_EQ(first(addcmul(x(1), x(300), x(300), 1e-4)), 10);
  EXPECT_EQ(first(addcdiv(x(1), x(300), x(1e-4f), 1e-4)), 301);
  EXPECT_EQ(first(lerp(x(-60000), x(60000), 0.5)), 0);
  EXPECT_EQ(first(leaky_relu(x(-1000), 1e-8)), nearest(-1e-5f, DType::f16));
}

// As PyTorch: a comparison asks for the number that the dtype holds, and what chooses between a value and a number
// gives the rounded one.
TEST_P(HalfPrecision, ComparedAndChosenNumbersAreRounded) {
  const Tensor x = half({0.1f});
  EXPECT_EQ(first(cast(x == 0.1, DType::i32)), 1);
  EXPECT_EQ(first(cast(x < 0.1, DType::i32)), 0);
  EXPECT_EQ(first(maximum(x, 0.3) - nearest(0.3f, DType::f16)), 0);
  EXPECT_EQ(first(minimum(x, 0.05) - nearest(0.05f, DType::f16)), 0);
  EXPECT_EQ(first(where(x > 5, x, 0.3) - nearest(0.3f, DType::f16)), 0);
  EXPECT_EQ(first(fmod(half({1}), 0.1)), std::fmod(1.0f, nearest(0.1f, DType::f16)));
  EXPECT_EQ(first(full({1}, 0.1, DType::f16, &device()) * 3), nearest(3 * nearest(0.1f, DType::f16), DType::f16));
  EXPECT_TRUE(std::isinf(first(full({1}, 70000, DType::f16, &device()) * 0.5)));
}

TEST_P(HalfPrecision, NumbersInGradientsAutocastAndCompiledFunctions) {
  Tensor x = half({0.5f});
  x.set_requires_grad(true);
  EXPECT_NEAR(first(grad({x * 1e-8}, {x}, {half({1000})})[0]), 1.0014e-5, 6e-8);
  EXPECT_EQ(first(grad({x / 1e-4}, {x}, {half({2})})[0]), nearest(2 / 1e-4f, DType::f16));
  {
    const AutocastScope scope(DType::f16);
    EXPECT_EQ(first(half({0.5f}) * 70000), 35008);
  }
  const auto scaled = compile([](const Tensor& v) { return v * 70000; });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(first(scaled(half({0.5f}))), 35008);
  const EagerScope eager;
  EXPECT_EQ(first(half({0.5f}) * 70000), 35008);
}

TEST_P(HalfPrecision, EachOperationRounds) {
  const Tensor x = half({0.25f, 1000.0f, 0.30004883f});
  const std::vector<double> expected = [] {
    std::vector<double> all;
    for (const float v : {0.25f, 1000.0f, 0.30004883f}) {
      const auto f16 = [](float value) { return nearest(value, DType::f16); };
      all.push_back(f16(f16(f16(v * 60) * 60) / 60));
    }
    return all;
  }();
  ASSERT_TRUE(std::isinf(expected[1]));
  EXPECT_EQ((x * 60 * 60 / 60).to_doubles(), expected);
  const EagerScope eager;
  EXPECT_EQ((x * 60 * 60 / 60).to_doubles(), expected);
}

using Program = std::function<std::vector<Tensor>(DeviceContext&, DType)>;

std::vector<float> noise_of(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>((i * 2654435761u + seed * 40503u) >> 7 & 1023) - 512) / 256.0f;
  return values;
}

Tensor draw(DeviceContext& device, const Shape& shape, DType dtype, uint32_t seed) {
  return cast(Tensor::from_vector(noise_of(shape.numel(), seed), shape, &device), dtype);
}

// Programs whose operations have one correctly rounded answer in f32: equal bit for bit wherever they run.
const std::vector<std::pair<const char*, Program>>& programs() {
  static const std::vector<std::pair<const char*, Program>> all{
      {"chain",
       [](DeviceContext& d, DType t) {
         const Tensor x = draw(d, {7, 33}, t, 1), y = draw(d, {33}, t, 2);
         const Tensor a = x * y + x, b = (a - 0.3) * a, c = where(b > a, b * b, a - y);
         return std::vector<Tensor>{c * 1.7 + b, relu(a * 3 - 1) * c};
       }},
      {"chain of scalars and views",
       [](DeviceContext& d, DType t) {
         const Tensor x = draw(d, {5, 17}, t, 3);
         return std::vector<Tensor>{transpose(x * 0.1 + 0.7) * 3 - slice(transpose(x), 0, {}) * 0.3,
                                    flip(x * 1.1 * 1.1 * 1.1, {1})};
       }},
      {"around a reduction",
       [](DeviceContext& d, DType t) {
         const Tensor x = draw(d, {9, 31}, t, 4);
         const Tensor row = max(x * 1.3, {1}, true), centred = x - row;
         return std::vector<Tensor>{centred * centred - row, max(centred * 0.7 + x, {0}) * 1.1};
       }},
      {"sum and more",
       [](DeviceContext& d, DType t) {
         const Tensor x = cast(round(draw(d, {6, 40}, t, 5) * 4), t);  // whole numbers: their f32 sums are exact
         const Tensor total = sum(x * x, {1}, true);
         return std::vector<Tensor>{total * 0.37 + x, sum(x, {0}) * 1.01 - 0.1};
       }},
      {"product and more",
       [](DeviceContext& d, DType t) {
         const Tensor a = cast(round(draw(d, {20, 24}, t, 6) * 4), t), b = cast(round(draw(d, {24, 36}, t, 7) * 4), t),
                      bias = draw(d, {36}, t, 8);
         return std::vector<Tensor>{relu(matmul(a, b) + bias) * 0.3 - bias, matmul(a * 0.3 * 2.5, b * 1.5) * 0.7};
       }},
      {"gradient",
       [](DeviceContext& d, DType t) {
         Tensor x = draw(d, {4, 19}, t, 9), w = draw(d, {19}, t, 10);
         x.set_requires_grad(true);
         const Tensor y = (x * w + 0.1) * x * 0.3;
         return grad({y}, {x}, {draw(d, {4, 19}, t, 11)});
       }},
  };
  return all;
}

TEST_P(HalfPrecision, ProgramsAreEqualEverywhere) {
  for (const DType t : {DType::f16, DType::bf16}) {
    for (const auto& [name, program] : programs()) {
      SCOPED_TRACE(fmt::format("{} {}", name, name_of(t)));
      const std::vector<Tensor> found = program(device(), t), expected = program(heddle::device("reference:0"), t);
      std::vector<Tensor> single;
      {
        const EagerScope eager;
        single = program(device(), t);
      }
      for (size_t k = 0; k < found.size(); ++k) {
        EXPECT_EQ(found[k].to_doubles(), expected[k].to_doubles()) << k;
        EXPECT_EQ(single[k].to_doubles(), expected[k].to_doubles()) << k << " op by op";
      }
    }
  }
}

// The other meaning, on request: what lies between the operations of one kernel keeps f32's range.
TEST_P(HalfPrecision, ExcessPrecision) {
  const ExcessPrecisionScope excess;
  EXPECT_EQ(first(half({1000}) * 60 * 60 / 60), 60000);
  const ExcessPrecisionScope off(false);
  EXPECT_TRUE(std::isinf(first(half({1000}) * 60 * 60 / 60)));
}

HEDDLE_VALUE_TESTS(HalfPrecision);

}  // namespace
}  // namespace heddle::tests
