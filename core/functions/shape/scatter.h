// Writes through indices that combine what is written: reductions, sums, copies, and writes where a mask is true.
//
// Purpose: torch.scatter_reduce and torch's index_... functions, composed, so that gradients of any order exist.
// Everything is deterministic: repeated picks are combined in a fixed order. Indices are i32 or i64; negative ones
// count from the end in the index_... functions, in scatter_reduce they are outside; what is outside is left out. x and
// source have one dtype, not bool. Other writes (scatter, scatter_add, put_along_axis, index_put, index_fill,
// masked_fill) stand in shape.h and functions.h. Errors: ShapeError, DTypeError, ValueError. Thread safety: recording
// is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

enum class ScatterReduction { sum, prod, mean, amax, amin };

// For axis 0: out[r][j] combines x[r][j] (without include_self: not) and all source[i][j] with indices[i][j] == r;
// elements without a pick keep x. Shapes as for scatter: indices no larger than source, and than x but along the axis.
// Means of integers round down. NaN wins an extreme. Gradients as PyTorch's: equal extremes share theirs evenly;
// products of the other factors are formed without division. Few comparisons (picks times rows) are one kernel; else
// the picks are sorted.
Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, ScatterReduction how,
                      bool include_self = true, Caller caller = Caller::current());
// The same for whole slices along the axis: indices (n), source of x's shape with n along the axis.
Tensor index_reduce(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, ScatterReduction how,
                    bool include_self = true, Caller caller = Caller::current());
// x + alpha source, slice by slice.
Tensor index_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, double alpha = 1,
                 Caller caller = Caller::current());
// The slices of source in the place of x's; the last one of several for the same place. Any dtype.
Tensor index_copy(const Tensor& x, int axis, const Tensor& indices, const Tensor& source,
                  Caller caller = Caller::current());
// x, where the mask (bool, broadcast to x) is true the next element of source in row-major order; the last one again
// when source is too short. Any dtype.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Caller caller = Caller::current());

}  // namespace heddle
