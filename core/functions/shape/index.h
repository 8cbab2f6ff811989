// Indexing.
//
// Indices are i32 or i64. Out-of-range indices: negative ones count from the end once; what is still out of range is
// clamped to the nearest valid index (device code cannot throw; nothing outside the buffer is ever read). The guard
// names it where it looks: core/functions/shape/index_check.h. Errors: ShapeError, DTypeError. Thread safety: recording
// is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor take(const Tensor& x, const Tensor& indices, int axis = 0,
            Caller caller = Caller::current());  // out: x.shape[:axis] + indices.shape + x.shape[axis+1:]
Tensor gather(const Tensor& x, int axis, const Tensor& indices,
              Caller caller = Caller::current());           // torch.gather: out[i][j] = x[indices[i][j]][j] for axis 0
Tensor embedding(TensorArg weight, const Tensor& indices);  // take along axis 0 with a shape check
Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype = DType::f32, Caller caller = Caller::current());
// torch.scatter_add: out = x; out[indices[i][j]][j] += source[i][j] for axis 0. Out-of-range indices are ignored.
// Deterministic.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source,
                   Caller caller = Caller::current());
// out = x; out[indices[i], ...] += source[i, ...]: rows; indices rank 1. Deterministic.
Tensor index_add(TensorArg x, const Tensor& indices, const Tensor& source);

}  // namespace heddle
