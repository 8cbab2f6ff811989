// Leaves and constants in f64 on the reference device, for tests of what autograd means.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {

using Values = std::vector<double>;

inline Tensor leaf(const Values& values, const Shape& shape) {
  return Tensor::from_vector(values, shape, &reference()).set_requires_grad();
}
inline Tensor leaf(const Values& values) { return leaf(values, Shape{static_cast<int64_t>(values.size())}); }
inline Tensor constant(const Values& values) {
  return Tensor::from_vector(values, Shape{static_cast<int64_t>(values.size())}, &reference());
}

}  // namespace heddle::tests
