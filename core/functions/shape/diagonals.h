// Diagonals and triangles of the last two axes, or of two axes that are given. Diagonal k holds the elements (i, i +
// k).
//
// Gradients of any order are those of the parts. Axes count from the end when negative. Errors: ShapeError, ValueError.
// Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor tril(const Tensor& x, int64_t k = 0,
            Caller caller = Caller::current());  // 0 above diagonal k of the last two axes
Tensor triu(const Tensor& x, int64_t k = 0, Caller caller = Caller::current());  // 0 below it
Tensor diagonal(const Tensor& x, int64_t k = 0, int axis0 = 0, int axis1 = 1,
                Caller caller = Caller::current());  // the two axes become one, the last
Tensor diag_embed(const Tensor& x, int64_t k = 0, int axis0 = -2, int axis1 = -1,
                  Caller caller = Caller::current());  // the last axis becomes two
Tensor diag(const Tensor& x, int64_t k = 0,
            Caller caller = Caller::current());  // of a matrix its diagonal, of a vector the matrix
Tensor matrix_trace(TensorArg x);                // sum of the diagonal of a matrix; torch.trace

}  // namespace heddle
