// Helpers of the nn tests: the reference device, tensors from doubles.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {

using Values = std::vector<double>;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline Tensor f32(const Values& values, const Shape& shape, DeviceContext& where = reference()) {
  return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &where);
}

inline Tensor f64(const Values& values, const Shape& shape) { return Tensor::from_vector(values, shape, &reference()); }

// size * sin(frequency * i), i = 1, 2 ...: values that a script of stored values makes as well.
inline Values wave(int64_t count, double frequency, double size) {
  Values all;
  for (int64_t i = 1; i <= count; ++i) all.push_back(size * std::sin(frequency * static_cast<double>(i)));
  return all;
}

inline Tensor wave(const Shape& shape, double frequency, DeviceContext& where) {
  return f32(wave(shape.numel(), frequency, 0.6), shape, where);
}

}  // namespace heddle::tests
