// 16-bit values that a kernel only moves are moved as bits; what is computed with is converted. Needs no device.
#include <gtest/gtest.h>

#include <functional>

#include "heddle/core/device/context.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/functions/functions.h"
#include "tests/null/null_device.h"
#include "tests/support/planned.h"

namespace heddle {
namespace {

using test::leaf;
using test::lower_pending;

// Texts of the kernels that compute `program`, of every target and both forms of lanes.
std::vector<std::string> texts(const std::function<Tensor()>& program) {
  std::vector<std::string> all;
  for (const bool loop_lanes : {false, true}) {
    const Tensor result = program();
    for (const LoweredKernel& kernel : lower_pending(loop_lanes)) {
      for (const Target target : {Target::opencl, Target::glsl, Target::cuda})
        all.push_back(print(kernel.source, target));
    }
    eval({result});
  }
  return all;
}

// Whether a buffer is read so (the preludes name the macro as well).
bool converts(const std::string& text, DType dtype) {
  return text.find("HK_LOAD_" + std::string(name_of(dtype)) + "(hk_") != std::string::npos;
}

void expect_converting(bool wanted, const char* what,
                       const std::function<Tensor(const Tensor& x, const Tensor& y)>& f) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = leaf({40, 24}, dtype), y = leaf({40, 24}, dtype);
    const std::vector<std::string> all = texts([&] { return f(x, y); });
    EXPECT_GE(all.size(), 6u) << what;
    for (const std::string& text : all)
      EXPECT_EQ(converts(text, dtype), wanted) << what << ", " << name_of(dtype) << ":\n" << text;
  }
}

TEST(MovedBits, MovesConvertNothing) {
  const Tensor rows = leaf({7}, DType::i64), mask = leaf({40, 24}, DType::boolean), sure = leaf({40, 24}, DType::f32);
  using T = const Tensor&;
  expect_converting(false, "take", [&](T x, T) { return take(x, rows, 0); });
  expect_converting(false, "concat", [](T x, T y) { return concat({x, flip(y, {0, 1})}, 0); });
  expect_converting(false, "transpose", [](T x, T y) { return concat({transpose(x), transpose(y)}, 1); });
  expect_converting(false, "pad", [](T x, T) { return pad(x, {{1, 2}, {3, 4}}, 0.5); });
  expect_converting(false, "where", [&](T x, T y) { return where(mask, x, y); });
  expect_converting(false, "where of a number", [&](T x, T) { return where(sure > 0.25, x, 0.1); });
}

TEST(MovedBits, WhatComputesConverts) {
  using T = const Tensor&;
  expect_converting(true, "add", [](T x, T y) { return concat({x, y}, 0) + 1.0; });
  expect_converting(true, "compare", [](T x, T y) { return where(x > y, x, y); });
  expect_converting(true, "cast", [](T x, T) { return cast(transpose(x), DType::f32); });
  expect_converting(true, "relu", [](T x, T) { return relu(x); });
}

}  // namespace
}  // namespace heddle
