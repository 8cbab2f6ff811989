// Ordered sets: places in ascending rows, different elements. NaN counts as larger than every number and equals
// nothing.
//
// "Host-sized": the shape depends on values, so the call observes its input. Errors: ShapeError, DTypeError. Thread
// safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

// How many elements of each ascending row are below (with right: not above) each value, i64. `sorted` is (n), or has
// the leading axes of `values`.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false, Caller caller = Caller::current());
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false,
                 Caller caller = Caller::current());  // boundaries (n)
struct Unique {
  Tensor values;   // (count), ascending
  Tensor inverse;  // i64, of x's shape: x = values[inverse]
  Tensor counts;   // i64 (count)
};
Unique unique(TensorArg x);  // of the flat tensor. Host-sized: observes the number of different elements
Tensor isin(TensorArg x, const Tensor& elements);  // bool

}  // namespace heddle
