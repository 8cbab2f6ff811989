// Deterministic writes, shared by pick.cpp and scatter.cpp. Internal to core/functions/shape. Thread safety: recording
// is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle::build {

// Negative indices counted from the end, once.
Tensor wrapped(const Tensor& indices, int64_t size);

// The same picks in i32: what is outside of [-rows, rows) stays outside, on its side. A plain cast would bring 2^32 + 3
// back in as 3.
Tensor narrowed(const Tensor& indices, int64_t rows);
// targets != number, exactly: a number beside a tensor is a double, which does not hold every i64.
Tensor differs(const Tensor& targets, int64_t number);
// Lengths and offsets as i32 in [0, most].
Tensor bounded(const Tensor& lengths, int64_t most);

// indices (outer, picks, inner): (outer, rows, inner) i32: the largest j with indices[o, j, i] == r, -1 without one.
Tensor last_pick(const Tensor& indices, int64_t rows);
// The same after the picks were ordered: `ordered` (outer, inner, picks) i32, ascending. Places in that order, shaped
// (outer, inner, rows), -1 without one.
Tensor last_place(const Tensor& ordered, int64_t rows);

// out = x; out[indices[i][j]][j] = source[i][j] for at 0; the last of repeated picks wins, indices outside are left
// out.
Tensor scatter_into(const Tensor& x, int at, const Tensor& indices, const Tensor& source);

// ShapeError unless ranks are equal, and indices no larger than source, and than x but along the axis. DTypeError,
// ValueError.
void check_scatter(const char* op, const Tensor& x, int at, const Tensor& indices, const Shape& source);
// DTypeError unless the values have x's dtype.
void check_dtypes(const char* op, const Tensor& x, const Tensor& values);

}  // namespace heddle::build
