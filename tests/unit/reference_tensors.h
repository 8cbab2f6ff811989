// Tensors on the reference device: of ones, and of given numbers.
#pragma once

#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"
#include "tests/support/reference_device.h"

namespace heddle::test {

inline Tensor of(const Shape& shape, DType t = DType::f32) { return ones(shape, t, &tests::reference()); }
inline Tensor whole(const Shape& shape) { return of(shape, DType::i32); }

inline Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from_vector(values, shape, &tests::reference());
}

}  // namespace heddle::test
