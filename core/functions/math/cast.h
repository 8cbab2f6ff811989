// A tensor in another dtype.
//
// Purpose: apart from the other elementwise functions, because what these are recorded with (core/functions/build.h)
// casts their operands. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

// x itself where it has that dtype.
Tensor cast(const Tensor& x, DType dtype, Caller caller = Caller::current());

}  // namespace heddle
