// What the functions of linear algebra ask of their arguments. Internal to core/functions/linalg, beside
// functions/build.h. Thread safety: recording is per thread.
#pragma once

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle::build {

inline void check_float(const char* op, const Tensor& x) {
  if (!is_float(x.dtype())) throw DTypeError(fmt::format("[{}] takes floating matrices; got {}; cast it", op, show(x)));
}

// A batch of matrices of a floating dtype.
inline void check_matrices(const char* op, const Tensor& x) {
  check_float(op, x);
  if (x.rank() < 2)
    throw ShapeError(fmt::format("[{}] takes matrices (.., m, n); got {}; reshape() it", op, x.shape().str()));
}

inline void check_square(const char* op, const Tensor& x) {
  check_matrices(op, x);
  if (x.dim(-1) != x.dim(-2))
    throw ShapeError(fmt::format("[{}] takes square matrices (.., n, n); got {}{}", op, x.shape().str(),
                                 "; pinv() and lstsq() take others"));
}

// f32 or f64 of one dtype on one device, for a computation; see compute_dtype().
inline void check_same(const char* op, const Tensor& a, const Tensor& b) {
  check_float(op, b);
  check_device(a, b, op);
  if (a.dtype() != b.dtype())
    throw DTypeError(fmt::format("[{}] both operands have one dtype; got {} and {}; cast one", op, show(a), show(b)));
}

// x with its leading axes repeated to `batch`.
inline Tensor with_batch(const Tensor& x, const Shape& batch) {
  return broadcast(x, linalg::with_dims(batch, {x.dim(-2), x.dim(-1)}));
}

// (..) as one batch axis, and matrices.
inline Tensor flattened(const Tensor& x) {
  return reshape(x, Shape{linalg::batch_count(x.shape()), x.dim(-2), x.dim(-1)});
}

inline Tensor rows(const Tensor& x, int64_t start, int64_t stop) {
  return slice(x, -2, {.start = start, .stop = stop});
}
inline Tensor columns(const Tensor& x, int64_t start, int64_t stop) {
  return slice(x, -1, {.start = start, .stop = stop});
}

inline const Caps& caps_of(const Tensor& x) { return x.device().caps(); }

}  // namespace heddle::build
