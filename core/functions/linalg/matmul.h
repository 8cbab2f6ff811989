// Products of matrices.
//
// Errors: ShapeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

// Like torch.matmul: vectors, matrices, broadcast batches; transposed operands are views, never copies.
Tensor matmul(TensorArg a, const Tensor& b);

}  // namespace heddle
