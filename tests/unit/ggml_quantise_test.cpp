// Numbers into GGML's blocks: what dequantise() makes of them, against what the blocks can hold.
#include "heddle/core/base/ggml_quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

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

std::vector<float> normal(size_t count, float mean) {
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
    const double error = error_of(type, normal(4096, 0));
    EXPECT_LE(error, most) << block_of(type).name;
    EXPECT_GE(error, most / 4) << block_of(type).name;
  }
  // Minima serve values that are not around zero.
  for (const GgmlType type : {GgmlType::q4_1, GgmlType::q4_k}) {
    EXPECT_LT(error_of(type, normal(4096, type == GgmlType::q4_1 ? 0.1F : -0.1F)), 0.02) << block_of(type).name;
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

}  // namespace
}  // namespace heddle
