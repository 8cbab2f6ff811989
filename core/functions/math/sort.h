// Order and running sums.
//
// Errors: ShapeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// Running sums and products along an axis, from the end with `reverse`; `exclusive` leaves out the element itself (it
// starts with 0 or 1). Integers and bool give i64. Deterministic: long axes are summed in pieces of a size that depends
// on the shape and device alone.
Tensor cumsum(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
              Caller caller = Caller::current());
Tensor cumprod(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
               Caller caller = Caller::current());

// Order is stable: equal elements (-0 and 0 too) keep their order. A NaN counts as larger than every number, as in
// NumPy and PyTorch: last in ascending order, first in descending order and in topk. Indices are i64. Gradients flow
// through the values. A scalar is refused.
struct Ordered {
  Tensor values, indices;
};
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false, Caller caller = Caller::current());
Ordered sort(const Tensor& x, int axis = -1, bool descending = false, Caller caller = Caller::current());
// The k largest (or smallest) in order. ValueError unless 0 <= k <= the axis.
Ordered topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true, Caller caller = Caller::current());

}  // namespace heddle
