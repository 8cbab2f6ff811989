// Leaves and constants in f64 on the reference device, for tests of what autograd means.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::tests {

using Values = std::vector<double>;

inline DeviceContext& reference() { return device("reference:0"); }

inline Tensor leaf(const Values& values, const Shape& shape) {
  return Tensor::from_vector(values, shape, &reference()).set_requires_grad();
}
inline Tensor leaf(const Values& values) { return leaf(values, Shape{static_cast<int64_t>(values.size())}); }
inline Tensor constant(const Values& values) {
  return Tensor::from_vector(values, Shape{static_cast<int64_t>(values.size())}, &reference());
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
