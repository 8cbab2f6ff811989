// Values in 8 bits, with a scale for each slice of a tensor. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle::train {

// i8 like what was rounded, and f32 with 1 along the dimension of a slice: their product is that but for half of a
// 127th of each slice's largest magnitude. A slice with a NaN or an infinity has no scale, and all of it becomes NaN.
struct EightBits {
  Tensor values, scales;
  Tensor restored() const;
};

// Slices are along dimension `dim` of x, which is f32.
EightBits in_eight_bits(const Tensor& x, int dim);

}  // namespace heddle::train
