// Helpers of the nn tests: the reference device, tensors from doubles, errors with their text.
#pragma once

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::tests {

using Values = std::vector<double>;

inline DeviceContext& reference() { return device("reference:0"); }

inline Tensor f32(const Values& values, const Shape& shape, DeviceContext& where = reference()) {
  return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &where);
}

// Runs f, which must throw E with every piece in its text.
template <class E, class F>
void expect_error(const F& f, std::initializer_list<const char*> pieces) {
  try {
    f();
    FAIL() << "no exception";
  } catch (const E& error) {
    for (const char* piece : pieces)
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what() << " lacks: " << piece;
  }
}

}  // namespace heddle::tests
