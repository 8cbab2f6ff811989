// Matrix products.
#include "heddle/core/functions/linalg/matmul.h"

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// "; did you mean transpose(b)?" where that would fit, else nothing.
std::string transpose_hint(const Shape& a, const Shape& b) {
  if (a.rank() < 2 && b.rank() < 2) return {};
  const int64_t k = a[a.rank() - 1];
  if (b.rank() >= 2 && b[b.rank() - 1] == k) return "; did you mean transpose(b)?";
  const int64_t rows_b = b[b.rank() >= 2 ? b.rank() - 2 : 0];
  if (a.rank() >= 2 && a[a.rank() - 2] == rows_b) return "; did you mean transpose(a)?";
  if (a.rank() >= 2 && b.rank() >= 2 && a[a.rank() - 2] == b[b.rank() - 1]) return "; did you mean matmul(b, a)?";
  return {};
}

// Batch dimensions of both, broadcast; the last two dimensions do not count.
Shape batch_shape(const Shape& a, const Shape& b) {
  if (a.rank() == 2 && b.rank() == 2) return {};
  const Shape batch_a(a.dims().first(static_cast<size_t>(a.rank() - 2)));
  const Shape batch_b(b.dims().first(static_cast<size_t>(b.rank() - 2)));
  try {
    return broadcast_shapes(batch_a, batch_b, "matmul");
  } catch (const ShapeError&) {
    throw ShapeError(fmt::format("[matmul] batch dimensions do not broadcast: a is {}, b is {}", a.str(), b.str()));
  }
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

Shape matrix_of_vector(const Shape& v, bool as_row) { return as_row ? Shape{1, v[0]} : Shape{v[0], 1}; }

// (B..., M, K) times (B..., K, N), both rank >= 2.
Tensor product(const Tensor& a, const Tensor& b) {
  const Shape& sa = a.shape();
  const Shape& sb = b.shape();
  const Shape batch = batch_shape(sa, sb);
  const int64_t m = sa[sa.rank() - 2], k = sa[sa.rank() - 1], n = sb[sb.rank() - 1];
  const Tensor left = build::broadcast(a, with_matrix(batch, m, k));
  const Tensor right = build::broadcast(b, with_matrix(batch, k, n));
  const Shape shape = with_matrix(batch, m, n);
  if (k == 0) {
    // An empty sum. It keeps its place in the gradient graph; a contraction kernel would have no loop to run.
    const Tensor grid = unsqueeze(left, -1) * unsqueeze(right, -3);
    return cast(sum(grid, {-2}), a.dtype());
  }
  return build::record(ops::matmul_op, {&left, &right}, {}, shape, a.dtype());
}

}  // namespace

Tensor matmul(TensorArg left_operand, const Tensor& b) {
  const CallerScope scope(left_operand.caller);
  const Tensor& a = left_operand.tensor;
  build::check_device(a, b, "matmul");
  if (a.rank() == 0 || b.rank() == 0) {
    throw ShapeError(fmt::format("[matmul] needs vectors or matrices: a is {}, b is {}; use * for scalars",
                                 a.shape().str(), b.shape().str()));
  }
  const int64_t inner_a = a.shape()[a.rank() - 1];
  const int64_t inner_b = b.shape()[b.rank() >= 2 ? b.rank() - 2 : 0];
  if (inner_a != inner_b) {
    throw ShapeError(fmt::format("[matmul] inner dimensions differ: a is {}, b is {}{}", a.shape().str(),
                                 b.shape().str(), transpose_hint(a.shape(), b.shape())));
  }
  DType t = autocast_dtype(ops::matmul_op, promote(a.dtype(), b.dtype()));
  if (t == DType::boolean) t = DType::i32;
  const bool row = a.rank() == 1;
  const bool column = b.rank() == 1;
  const Tensor left = row ? reshape(cast(a, t), matrix_of_vector(a.shape(), true)) : cast(a, t);
  const Tensor right = column ? reshape(cast(b, t), matrix_of_vector(b.shape(), false)) : cast(b, t);
  const Tensor result = product(left, right);
  Shape shape = result.shape();
  if (column) shape = shape.without(shape.rank() - 1);
  if (row) shape = shape.without(column ? shape.rank() - 1 : shape.rank() - 2);
  return reshape(result, shape);
}

}  // namespace heddle
