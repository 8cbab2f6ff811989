// Softmax and its logarithm along an axis.
//
// Integers are cast to f32. Errors: ShapeError for a scalar. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor softmax(const Tensor& x, int axis = -1, Caller caller = Caller::current());
Tensor log_softmax(const Tensor& x, int axis = -1, Caller caller = Caller::current());

}  // namespace heddle
