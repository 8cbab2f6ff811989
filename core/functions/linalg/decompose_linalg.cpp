// The rows of linear algebra as kernels: small matrices are one launch, large ones blocks of them and matrix products.
//
// Blocks are halved recursively (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997), so
// that most of the work is in products.
#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_linalg.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/linalg/reflectors.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/tiles/linalg_tiles.h"

namespace heddle::linalg {
namespace {

using build::caps_of;
using build::columns;
using build::flattened;
using build::record;
using build::rows;

Tensor square(const Tensor& x, int64_t start, int64_t stop) { return columns(rows(x, start, stop), start, stop); }

// Whole blocks, about half of n; n > block.
int64_t half_of(int64_t n, int64_t block) { return ((ceil_div(n, block) + 1) / 2) * block; }

// The number of the first failure of two blocks, the second of which begins `offset` later.
Tensor first_failure(const Tensor& a, const Tensor& b, int64_t offset) {
  return where(a > 0, a, where(b > 0, b + static_cast<double>(offset), b));
}

// Kernels of their own: nested concats would fuse into one with a branch for every block.
Tensor above_each_other(const Tensor& a, const Tensor& c) { return join({a, c}, 0, 1, a.dim(1) + c.dim(1), a.dim(2)); }

struct Cholesky {
  Tensor factor, info;  // (B, n, n), (B, 1) floating
};

Cholesky cholesky_blocks(const Tensor& a) {
  const int64_t count = a.dim(0), n = a.dim(1), block = cholesky_block(caps_of(a), a.dtype(), n);
  if (n <= block) {
    const Tensor pack = record(cholesky_block_op, {&a}, {}, Shape{count, n * n + 1}, a.dtype());
    return {part(pack, 0, {n, n}), part(pack, n * n, {1})};
  }
  const int64_t half = half_of(n, block);
  const Cholesky first = cholesky_blocks(square(a, 0, half));
  const Tensor below =
      transpose(triangular(first.factor, transpose(columns(rows(a, half, n), 0, half)), false, false, false));
  const Cholesky second = cholesky_blocks(square(a, half, n) - matmul(below, transpose(below)));
  return {join({first.factor, below, second.factor}, 2, 1, n, n), first_failure(first.info, second.info, half)};
}

struct Factors {
  Tensor lu, order, sign, info;  // (B, m, n), (B, m) i32, (B, 1), (B, 1) floating
};

Factors lu_blocks(const Tensor& a);

// More columns than rows: the square in front decides, the rest follows.
Factors lu_wide(const Tensor& a) {
  const int64_t m = a.dim(1), n = a.dim(2);
  const Factors front = lu_blocks(columns(a, 0, m));
  const Tensor rest = triangular(front.lu, permute_rows(columns(a, m, n), front.order), false, false, true);
  return {join({front.lu, rest}, 1, 0, m, n), front.order, front.sign, front.info};
}

Factors lu_blocks(const Tensor& a) {
  const int64_t count = a.dim(0), m = a.dim(1), n = a.dim(2), block = lu_block(caps_of(a), a.dtype(), m, n);
  if (n <= block) {
    const Tensor pack = record(lu_panel_op, {&a}, {}, Shape{count, m * n + m + 2}, a.dtype());
    return {part(pack, 0, {m, n}), cast(part(pack, m * n, {m}), DType::i32), part(pack, m * n + m, {1}),
            part(pack, m * n + m + 1, {1})};
  }
  if (n > m) return lu_wide(a);
  const int64_t half = half_of(n, block);
  const Factors first = lu_blocks(columns(a, 0, half));
  const Tensor right = permute_rows(columns(a, half, n), first.order);
  const Tensor corner = triangular(rows(first.lu, 0, half), rows(right, 0, half), false, false, true);
  const Tensor below = rows(first.lu, half, m);
  const Factors second = lu_blocks(rows(right, half, m) - matmul(below, corner));
  const Tensor joined =
      join({rows(first.lu, 0, half), corner, permute_rows(below, second.order), second.lu}, 1, 1, m, n);
  const Tensor order =
      concat({columns(first.order, 0, half), gather(columns(first.order, half, m), 1, second.order)}, 1);
  return {joined, order, first.sign * second.sign, first_failure(first.info, second.info, half)};
}

Tensor triangular_blocks(const Tensor& t, const Tensor& b, bool upper, bool transposed, bool unit) {
  const int64_t n = b.dim(1), block = triangular_block(caps_of(b), b.dtype(), n, b.dim(2));
  if (n <= block)
    return record(triangular_block_op, {&t, &b}, triangular_attrs(upper, transposed, unit), b.shape(), b.dtype());
  const int64_t half = half_of(n, block);
  const auto solved = [&](int64_t start, int64_t stop, const Tensor& right) {
    return triangular_blocks(square(t, start, stop), right, upper, transposed, unit);
  };
  const Tensor corner = upper ? columns(rows(t, 0, half), half, n) : columns(rows(t, half, n), 0, half);
  const Tensor between = transposed ? transpose(corner) : corner;
  if (upper == transposed) {  // op(t) is lower triangular
    const Tensor first = solved(0, half, rows(b, 0, half));
    return above_each_other(first, solved(half, n, rows(b, half, n) - matmul(between, first)));
  }
  const Tensor second = solved(half, n, rows(b, half, n));
  return above_each_other(solved(0, half, rows(b, 0, half) - matmul(between, second)), second);
}

}  // namespace

const OpDef cholesky_block_op{.name = "cholesky_block",
                              .kind = OpKind::body,
                              .arity = 1,
                              .rule = DTypeRule::any,
                              .doc = "Cholesky factors of small matrices"};
const OpDef lu_panel_op{.name = "lu_panel",
                        .kind = OpKind::body,
                        .arity = 1,
                        .rule = DTypeRule::any,
                        .doc = "LU factors of narrow matrices"};
const OpDef triangular_block_op{.name = "triangular_block",
                                .kind = OpKind::body,
                                .arity = 2,
                                .rule = DTypeRule::any,
                                .doc = "systems with small triangular matrices",
                                .attrs = AttrsForm::triangle};
const OpDef join_blocks_op{.name = "join_blocks",
                           .kind = OpKind::body,
                           .arity = -1,
                           .rule = DTypeRule::any,
                           .doc = "a matrix from blocks of it"};

Tensor decompose_cholesky(const Node& node) {
  const Tensor a(node.inputs[0]);
  const int64_t count = batch_count(a.shape()), n = a.dim(-1);
  if (count == 0 || n == 0) return zeros(node.shape, node.dtype, node.device);
  const Cholesky made = cholesky_blocks(flattened(a));
  return reshape(concat({reshape(made.factor, Shape{count, n * n}), made.info}, 1), node.shape);
}

Tensor decompose_lu(const Node& node) {
  const Tensor a(node.inputs[0]);
  const int64_t count = batch_count(a.shape()), m = a.dim(-2), n = a.dim(-1);
  if (count == 0) return zeros(node.shape, node.dtype, node.device);
  if (m == 0 || n == 0) {
    const Tensor order = expand(arange(0, static_cast<double>(m), 1, node.dtype, node.device), Shape{count, m});
    return reshape(
        concat({order, ones({count, 1}, node.dtype, node.device), zeros({count, 1}, node.dtype, node.device)}, 1),
        node.shape);
  }
  const Factors made = lu_blocks(flattened(a));
  return reshape(concat({reshape(made.lu, Shape{count, m * n}), cast(made.order, node.dtype), made.sign, made.info}, 1),
                 node.shape);
}

Tensor decompose_solve_triangular(const Node& node) {
  const Tensor t(node.inputs[0]), b(node.inputs[1]);
  if (b.numel() == 0) return zeros(node.shape, node.dtype, node.device);
  const TriangularAttrs attrs(node.attrs);
  return reshape(triangular_blocks(flattened(t), flattened(b), attrs.upper, attrs.transposed, attrs.unit), node.shape);
}

// P a = L U: a x = b is L U x = P b; a^T x = b is U^T L^T P x = b.
Tensor decompose_linear_solve(const Node& node) {
  const Tensor pack(node.inputs[1]), b(node.inputs[2]);
  const int64_t n = b.dim(-2);
  if (b.numel() == 0) return zeros(node.shape, node.dtype, node.device);
  const Tensor factors = lu_factors(pack, n, n), order = lu_permutation(pack, n, n);
  if (node.attrs.ints[0] == 0)
    return triangular(factors, triangular(factors, permute_rows(b, order), false, false, true), true, false, false);
  return unpermute_rows(triangular(factors, triangular(factors, b, true, true, false), false, true, true), order);
}

Tensor decompose_det(const Node& node) {
  const Tensor pack(node.inputs[1]);
  const int64_t n = node.inputs[0]->shape.dim(-1);
  return lu_sign(pack, n, n) * prod(diagonal(lu_factors(pack, n, n), 0, -2, -1), {-1});
}

}  // namespace heddle::linalg
