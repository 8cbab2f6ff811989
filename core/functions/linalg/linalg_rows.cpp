#include "heddle/core/functions/linalg/linalg_rows.h"

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::linalg {

using build::record;

Shape batch_of(const Shape& shape) { return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 2))); }

Shape with_dims(const Shape& batch, std::initializer_list<int64_t> dims) {
  Shape shape = batch;
  for (int64_t d : dims) shape.push_back(d);
  return shape;
}

int64_t batch_count(const Shape& shape) { return batch_of(shape).numel(); }

Tensor part(const Tensor& pack, int64_t first, const Shape& shape) {
  Shape whole = pack.shape().without(pack.rank() - 1);
  for (int64_t d : shape) whole.push_back(d);
  return reshape(slice(pack, -1, {.start = first, .stop = first + shape.numel()}), whole);
}

Tensor cholesky_pack(const Tensor& a) {
  const int64_t n = a.dim(-1);
  return record(ops::cholesky_op, {&a}, {}, with_dims(batch_of(a.shape()), {n * n + 1}), a.dtype());
}

Tensor lu_pack(const Tensor& a) {
  const int64_t m = a.dim(-2), n = a.dim(-1);
  return record(ops::lu_op, {&a}, {}, with_dims(batch_of(a.shape()), {m * n + m + 2}), a.dtype());
}

Tensor triangular(const Tensor& t, const Tensor& b, bool upper, bool transposed, bool unit) {
  return record(ops::solve_triangular_op, {&t, &b}, triangular_attrs(upper, transposed, unit), b.shape(), b.dtype());
}

Tensor linear_solve(const Tensor& a, const Tensor& factors, const Tensor& b, bool transposed) {
  return record(ops::linear_solve_op, {&a, &factors, &b}, Attrs{{transposed}}, b.shape(), b.dtype());
}

Tensor determinant(const Tensor& a, const Tensor& factors) {
  return record(ops::det_op, {&a, &factors}, {}, batch_of(a.shape()), a.dtype());
}

Tensor qr_pack(const Tensor& a, bool complete) {
  const int64_t m = a.dim(-2), n = a.dim(-1), c = complete || m < n ? m : n;
  return record(ops::qr_op, {&a}, Attrs{{complete}}, with_dims(batch_of(a.shape()), {m * c + c * n}), a.dtype());
}

Tensor eigh_pack(const Tensor& a) {
  const int64_t n = a.dim(-1);
  return record(ops::eigh_op, {&a}, {}, with_dims(batch_of(a.shape()), {n * n + n + 1}), a.dtype());
}

Tensor svd_pack(const Tensor& a) {
  const int64_t m = a.dim(-2), n = a.dim(-1), k = m < n ? m : n;
  return record(ops::svd_op, {&a}, {}, with_dims(batch_of(a.shape()), {m * k + k + k * n + 1}), a.dtype());
}

Tensor cholesky_factor(const Tensor& pack, int64_t n) { return part(pack, 0, {n, n}); }
Tensor cholesky_info(const Tensor& pack, int64_t n) { return cast(part(pack, n * n, {}), DType::i32); }
Tensor lu_factors(const Tensor& pack, int64_t m, int64_t n) { return part(pack, 0, {m, n}); }
Tensor lu_permutation(const Tensor& pack, int64_t m, int64_t n) { return cast(part(pack, m * n, {m}), DType::i32); }
Tensor lu_sign(const Tensor& pack, int64_t m, int64_t n) { return part(pack, m * n + m, {}); }
Tensor lu_info(const Tensor& pack, int64_t m, int64_t n) { return cast(part(pack, m * n + m + 1, {}), DType::i32); }

Tensor permute_rows(const Tensor& x, const Tensor& indices) {
  if (x.numel() == 0) return x;
  return gather(x, x.rank() - 2, expand(unsqueeze(indices, -1), x.shape()));
}

Tensor unpermute_rows(const Tensor& x, const Tensor& indices) {
  if (x.numel() == 0) return x;
  return permute_rows(
      x, record(ops::argsort_op, {&indices}, sort_attrs(false, indices.dim(-1)), indices.shape(), DType::i32));
}

}  // namespace heddle::linalg
