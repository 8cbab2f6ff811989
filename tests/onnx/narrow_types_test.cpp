// Floats of 4 and 8 bits and integers of 2 and 4: their codes, how they round, and how files pack them.
#include "heddle/onnx/narrow_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/onnx/parse.h"
#include "heddle/onnx/serialize.h"

namespace heddle::tests {
namespace {

using onnx::Type;

constexpr Type floats[] = {Type::f8e4m3fn, Type::f8e4m3fnuz, Type::f8e5m2, Type::f8e5m2fnuz, Type::f4e2m1};
int codes(Type type) { return type == Type::f4e2m1 ? 16 : 256; }

// The nearest of all finite values, the one with an even code where two are.
double nearest(Type type, double x) {
  double best = 0;
  int best_code = 0;
  for (int code = 0; code < codes(type) / 2; ++code) {
    const double value = onnx::narrow_value(type, static_cast<uint8_t>(code));
    if (!std::isfinite(value)) continue;
    const double distance = std::abs(std::abs(x) - value), least = std::abs(std::abs(x) - best);
    if (distance < least || (distance == least && code % 2 == 0 && best_code % 2 != 0)) {
      best = value;
      best_code = code;
    }
  }
  return std::copysign(best, x);
}

std::vector<float> drawn(Type type) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-20, std::log2(static_cast<float>(onnx::largest(type)))), part(-1, 1);
  std::vector<float> values{0.0f, -0.0f, static_cast<float>(onnx::largest(type))};
  for (int code = 0; code + 1 < codes(type) / 2; ++code) {  // the ties as well
    const double a = onnx::narrow_value(type, static_cast<uint8_t>(code)),
                 b = onnx::narrow_value(type, static_cast<uint8_t>(code + 1));
    if (std::isfinite(a + b)) values.push_back(static_cast<float>((a + b) / 2));
  }
  for (int i = 0; i < 500; ++i) values.push_back(part(random) * std::exp2(exponent(random)));
  return values;
}

TEST(NarrowTypes, ValuesOfTheStandard) {
  EXPECT_EQ(onnx::narrow_value(Type::f8e4m3fn, 0x7e), 448);
  EXPECT_EQ(onnx::narrow_value(Type::f8e4m3fn, 0x01), std::exp2(-9));
  EXPECT_EQ(onnx::narrow_value(Type::f8e4m3fnuz, 0x7f), 240);
  EXPECT_EQ(onnx::narrow_value(Type::f8e4m3fnuz, 0x01), std::exp2(-10));
  EXPECT_EQ(onnx::narrow_value(Type::f8e5m2, 0x7b), 57344);
  EXPECT_EQ(onnx::narrow_value(Type::f8e5m2, 0xfc), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(onnx::narrow_value(Type::f8e5m2fnuz, 0x7f), 57344);
  EXPECT_EQ(onnx::narrow_value(Type::f8e5m2fnuz, 0x01), std::exp2(-17));
  for (const auto& [type, code] :
       {std::pair{Type::f8e4m3fn, 0x7f}, {Type::f8e4m3fnuz, 0x80}, {Type::f8e5m2, 0x7d}, {Type::f8e5m2fnuz, 0x80}})
    EXPECT_TRUE(std::isnan(onnx::narrow_value(type, static_cast<uint8_t>(code)))) << onnx::name_of(type);
  const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code)
    EXPECT_EQ(onnx::narrow_value(Type::f4e2m1, static_cast<uint8_t>(code)), e2m1[code]);
}

TEST(NarrowTypes, EveryCodeIsItsValuesCode) {
  for (const Type type : floats) {
    for (int code = 0; code < codes(type); ++code) {
      const double value = onnx::narrow_value(type, static_cast<uint8_t>(code));
      if (!std::isnan(value)) {
        EXPECT_EQ(onnx::narrow_bits(type, value), code) << onnx::name_of(type);
      }
    }
  }
}

TEST(NarrowTypes, RoundToTheNearestOnHostAndDevice) {
  for (const Type type : floats) {
    const std::vector<float> values = drawn(type);
    const Tensor x = Tensor::from_vector(values, {static_cast<int64_t>(values.size())});
    const std::vector<float> rounded = onnx::narrowed(x, type, true).to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      const double wanted = nearest(type, values[i]);
      EXPECT_EQ(onnx::narrow_value(type, onnx::narrow_bits(type, values[i])), wanted)
          << onnx::name_of(type) << " " << values[i];
      EXPECT_EQ(rounded[i], static_cast<float>(wanted)) << onnx::name_of(type) << " " << values[i];
    }
  }
}

TEST(NarrowTypes, WhatLiesBeyond) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from_vector(std::vector<float>{1e6f, -1e6f, infinity, std::nanf("")}, {4});
  for (const Type type : floats) {
    const auto largest = static_cast<float>(onnx::largest(type));
    const std::vector<float> kept = onnx::narrowed(x, type, true).to_vector<float>();
    EXPECT_EQ(kept[0], largest);
    EXPECT_EQ(kept[1], -largest);
    EXPECT_EQ(kept[2], largest);
    EXPECT_EQ(std::isnan(kept[3]), type != Type::f4e2m1);
    const std::vector<float> left = onnx::narrowed(x, type, false).to_vector<float>();
    if (type == Type::f8e5m2) {
      EXPECT_EQ(left[0], infinity);
      EXPECT_EQ(left[1], -infinity);
    } else if (type == Type::f4e2m1) {
      EXPECT_EQ(left[0], largest);
    } else {
      EXPECT_TRUE(std::isnan(left[0]) && std::isnan(left[1]) && std::isnan(left[2])) << onnx::name_of(type);
    }
  }
}

TEST(NarrowTypes, FilesPackWhatIsBelowEightBits) {
  EXPECT_EQ(onnx::bytes_in_file(Type::i4, 5), 3u);
  EXPECT_EQ(onnx::bytes_in_file(Type::u2, 5), 2u);
  EXPECT_EQ(onnx::bytes_in_file(Type::f8e5m2, 5), 5u);
  EXPECT_EQ(onnx::bytes_in_file(Type::f32, 5), 20u);
  EXPECT_EQ(onnx::unpacked(Type::i4, "\x8f\x07", 3), std::string("\xff\xf8\x07", 3));
  EXPECT_EQ(onnx::unpacked(Type::u4, "\x8f\x07", 3), std::string("\x0f\x08\x07", 3));
  EXPECT_EQ(onnx::unpacked(Type::i2, "\xe4", 4), std::string("\x00\x01\xfe\xff", 4));
  for (const Type type : {Type::i4, Type::u4, Type::i2, Type::u2, Type::f4e2m1}) {
    const std::string bytes = "\x8f\xe4\x01";
    const size_t elements = bytes.size() * (onnx::bytes_in_file(type, 4) == 1 ? 4 : 2);
    EXPECT_EQ(onnx::packed(type, onnx::unpacked(type, bytes, elements)), bytes) << onnx::name_of(type);
  }
}

// A model is read back as it was written, in a file of its own and beside it.
TEST(NarrowTypes, ModelsArePackedAndUnpacked) {
  onnx::ModelFile model;
  model.opsets[""] = 21;
  model.graph.constants["w"] = onnx::HostTensor::of_ints(Type::i4, Shape{3}, {-8, 7, 3});
  std::vector<int64_t> many(4001, 5);
  model.graph.constants["many"] = onnx::HostTensor::of_ints(Type::u4, Shape{4001}, many);
  for (const bool external : {false, true}) {
    onnx::ExternalFile beside{"net.data"};
    const std::string bytes = onnx::serialize(model, external ? &beside : nullptr);
    const onnx::ModelFile read = onnx::parse_model(bytes, "net.onnx", {"."});
    EXPECT_EQ(read.graph.constants.at("w").ints(), (std::vector<int64_t>{-8, 7, 3}));
    EXPECT_EQ(read.graph.constants.at("many").ints(), many);
    EXPECT_LT(bytes.size(), 4001u) << "two to a byte";
  }
}

}  // namespace
}  // namespace heddle::tests
