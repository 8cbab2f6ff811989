// Numbers into GGML's blocks: what dequantise() makes of them, against what the blocks can hold.
#include "heddle/core/base/ggml_quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle {
namespace {

std::vector<float> unpacked(GgmlType type, const std::vector<uint8_t>& blocks) {
  const GgmlBlock& block = block_of(type);
  std::vector<float> values(blocks.size() / block.bytes * block.elements);
  dequantise(type, blocks, values);
  return values;
}

// Root of the mean squared error, relative to the values' own.
double error_of(GgmlType type, const std::vector<float>& values) {
  const std::vector<float> found = unpacked(type, quantise(type, values));
  double error = 0, size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(found[i] - values[i], 2);
    size += std::pow(values[i], 2);
  }
  return size == 0 ? std::sqrt(error) : std::sqrt(error / size);
}

std::vector<float> normal_numbers(size_t count, float mean) {
  std::mt19937 numbers(7);
  std::normal_distribution<float> draw(mean, 0.02F);
  std::vector<float> values(count);
  for (float& value : values) value = draw(numbers);
  return values;
}

// Bounds of a normal distribution: a step of the widest block's range over its levels, over sqrt(12), rounded up.
TEST(GgmlQuantise, ErrorsAreThoseOfTheBits) {
  const std::pair<GgmlType, double> cases[] = {
      {GgmlType::f32, 0},      {GgmlType::f16, 5e-4},   {GgmlType::bf16, 4e-3},  {GgmlType::q8_0, 0.007},
      {GgmlType::q6_k, 0.021}, {GgmlType::q4_0, 0.092}, {GgmlType::q4_1, 0.076}, {GgmlType::q4_k, 0.08},
  };
  for (const auto& [type, most] : cases) {
    const double error = error_of(type, normal_numbers(4096, 0));
    EXPECT_LE(error, most) << block_of(type).name;
    EXPECT_GE(error, most / 4) << block_of(type).name;
  }
  EXPECT_LE(error_of(GgmlType::nf4, normal_numbers(4096, 0)), 0.1);
  // Minima serve values that are not around zero.
  for (const GgmlType type : {GgmlType::q4_1, GgmlType::q4_k}) {
    EXPECT_LT(error_of(type, normal_numbers(4096, type == GgmlType::q4_1 ? 0.1F : -0.1F)), 0.02) << block_of(type).name;
  }
}

TEST(GgmlQuantise, WhatBlocksHoldComesBack) {
  for (const GgmlBlock& block : ggml_blocks()) {
    const std::vector<float> values = unpacked(block.type, test::random_blocks(block.type, 1024, 3));
    const double most = block.type == GgmlType::q4_k   ? 0.03
                        : block.type == GgmlType::q6_k ? 0.015
                                                       : 3e-3;  // -128 of Q8_0 is not written
    EXPECT_LE(error_of(block.type, values), most) << block.name;
  }
}

TEST(GgmlQuantise, EveryElementHasItsPlace) {
  for (const GgmlBlock& block : ggml_blocks()) {
    for (size_t i = 0; i < block.elements; ++i) {
      std::vector<float> values(block.elements);
      values[i] = i % 2 == 0 ? 1.5F : -1.5F;
      const std::vector<float> found = unpacked(block.type, quantise(block.type, values));
      for (size_t k = 0; k < values.size(); ++k) ASSERT_NEAR(found[k], values[k], 0.02) << block.name << i << k;
    }
  }
}

TEST(GgmlQuantise, ConstantsAndExtremes) {
  for (const GgmlBlock& block : ggml_blocks()) {
    for (const float value : {0.0F, 0.75F, -0.75F, 1e-30F, 30000.0F}) {
      const std::vector<float> values(block.elements, value);
      for (const float found : unpacked(block.type, quantise(block.type, values)))
        ASSERT_NEAR(found, value, 0.005 * std::abs(value) + 1e-7) << block.name;
    }
    std::vector<float> values(block.elements, std::numeric_limits<float>::infinity());
    tests::expect_error<ValueError>([&] { quantise(block.type, values); }, {"[quantise] a value is inf"});
    if (block.elements == 1) continue;
    values.pop_back();
    tests::expect_error<ValueError>([&] { quantise(block.type, values); }, {"no whole blocks"});
  }
  tests::expect_error<ValueError>([] { quantise(GgmlType::f16, std::vector<float>{1e6F}); }, {"beyond 16 bits"});
}

// The levels as the paper prints them (Dettmers et al. 2023, appendix E).
constexpr double nf4[] = {-1.0,
                          -0.6961928009986877,
                          -0.5250730514526367,
                          -0.39491748809814453,
                          -0.28444138169288635,
                          -0.18477343022823334,
                          -0.09105003625154495,
                          0.0,
                          0.07958029955625534,
                          0.16093020141124725,
                          0.24611230194568634,
                          0.33791524171829224,
                          0.44070982933044434,
                          0.5626170039176941,
                          0.7229568362236023,
                          1.0};

TEST(GgmlQuantise, Nf4TakesTheNearestLevel) {
  std::vector<float> values = normal_numbers(3 * 64, 0);
  std::fill(values.begin() + 64, values.begin() + 128, 0.0F);
  const std::vector<float> found = unpacked(GgmlType::nf4, quantise(GgmlType::nf4, values));
  for (size_t first = 0; first < values.size(); first += 64) {
    double most = 0;
    for (size_t i = first; i < first + 64; ++i) most = std::max(most, std::abs(double(values[i])));
    const double scale = f16_to_f32(f32_to_f16(static_cast<float>(most)));
    for (size_t i = first; i < first + 64; ++i) {
      double nearest = 0, distance = 1e9;
      for (const double level : nf4) {
        if (std::abs(scale * level - values[i]) < distance)
          nearest = scale * level, distance = std::abs(nearest - values[i]);
      }
      ASSERT_NEAR(found[i], nearest, 1e-7 * scale) << i;
    }
  }
}

TEST(GgmlQuantise, Nf4HoldsItsLevelsAndIsInNoFile) {
  const GgmlBlock& block = block_of(GgmlType::nf4);
  EXPECT_EQ(block.name, "NF4");
  EXPECT_EQ(find_block("nf4"), &block);
  EXPECT_EQ(find_block("q4_K"), &block_of(GgmlType::q4_k));
  EXPECT_EQ(find_block("q4"), nullptr);
  EXPECT_EQ(find_block(static_cast<uint32_t>(GgmlType::nf4)), nullptr);
  for (const GgmlBlock& known : ggml_blocks()) EXPECT_NE(known.type, GgmlType::nf4);
  std::vector<float> values;  // each level at two places of both halves
  for (size_t i = 0; i < 64; ++i) values.push_back(static_cast<float>(nf4[i * 7 % 16] * 0.25));
  const std::vector<float> found = unpacked(GgmlType::nf4, quantise(GgmlType::nf4, values));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(found[i], values[i]) << i;
  EXPECT_EQ(error_of(GgmlType::nf4, std::vector<float>(64, 0.0F)), 0);
  values[63] = std::numeric_limits<float>::quiet_NaN();
  tests::expect_error<ValueError>([&] { quantise(GgmlType::nf4, values); }, {"[quantise] a value is nan"});
  tests::expect_error<ValueError>([] { quantise(GgmlType::nf4, std::vector<float>(64, 1e6F)); }, {"beyond 16 bits"});
  tests::expect_error<ValueError>([] { quantise(GgmlType::nf4, std::vector<float>(32, 1)); }, {"each has 64"});
}

}  // namespace
}  // namespace heddle
