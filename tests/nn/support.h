// Helpers of the nn tests: the reference device, tensors from doubles.
#pragma once

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {

using Values = std::vector<double>;

inline DeviceContext& reference() { return device("reference:0"); }

inline Tensor f32(const Values& values, const Shape& shape, DeviceContext& where = reference()) {
  return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &where);
}

}  // namespace heddle::tests
