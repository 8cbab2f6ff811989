// The rows of linear algebra: what each means, how several results share one tensor, and the kernels that they are made
// of. Internal to core and autograd; the public functions are in core/functions/linalg/linalg.h.
//
// Purpose: a row has one result, so that what belongs together (factors, permutation, whether it went well) lies in one
// flat last axis, a *pack*; part() is a view of a piece of it. Rows are batched over all leading axes and take f32 or
// f64. They are of kind fused: a rule of their own each for gradients, vmap and the reference, and a decomposition into
// the kernels at the end of this file (decompose_linalg.cpp, decompose_spectral.cpp), by blocks where a matrix is
// large.
//
//   row               inputs        ints                          result
//   cholesky          a (.., n, n)  -                             pack: L (n, n), info. Reads the lower triangle
//   lu                a (.., m, n)  -                             pack: L and U (m, n), permutation (m), its sign, info
//   solve_triangular  t, b          {upper, transposed, unit}     x (.., n, k) of op(t) x = b; reads one triangle of t
//   linear_solve      a, lu(a), b   {transposed}                  x of a x = b, or a^T x = b, from the factors; a is
//   there for its gradient det               a, lu(a)      -                             (..) qr                a (..,
//   m, n)  {complete}                    pack: Q (m, c), R (c, n), c = m if complete, else min(m, n) eigh a (.., n, n)
//   -                             pack: V (n, n), w (n), info. Reads the lower triangle; info 1: did not converge svd
//   a (.., m, n)  -                             pack: U (m, k), s (k), V^T (k, n), info; k = min(m, n)
//
// info is 0, or the number (from 1) of the pivot or leading minor where it failed, as LAPACK's; everything that depends
// on that is NaN or infinite. Thread safety: references to immutable rows; functions record.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/op.h"
#include "heddle/core/op/primitives.h"

namespace heddle::linalg {

// Elements [first, first + numel of `shape`) of the last axis, as (batch axes.., shape..).
Tensor part(const Tensor& pack, int64_t first, const Shape& shape);
// Leading axes of a tensor of matrices.
Shape batch_of(const Shape& shape);
// (batch.., dims..).
Shape with_dims(const Shape& batch, std::initializer_list<int64_t> dims);
// Product of the leading axes.
int64_t batch_count(const Shape& shape);

// One node each; arguments are checked by the public functions.
Tensor cholesky_pack(const Tensor& a);
Tensor lu_pack(const Tensor& a);
Tensor triangular(const Tensor& t, const Tensor& b, bool upper, bool transposed, bool unit);
Tensor linear_solve(const Tensor& a, const Tensor& factors, const Tensor& b, bool transposed);
Tensor determinant(const Tensor& a, const Tensor& factors);
Tensor qr_pack(const Tensor& a, bool complete);
Tensor eigh_pack(const Tensor& a);
Tensor svd_pack(const Tensor& a);

// Pieces of packs.
Tensor cholesky_factor(const Tensor& pack, int64_t n);
Tensor cholesky_info(const Tensor& pack, int64_t n);  // i32 (batch..)
Tensor lu_factors(const Tensor& pack, int64_t m, int64_t n);
Tensor lu_permutation(const Tensor& pack, int64_t m, int64_t n);  // i32 (batch.., m)
Tensor lu_sign(const Tensor& pack, int64_t m, int64_t n);         // floating (batch..)
Tensor lu_info(const Tensor& pack, int64_t m, int64_t n);         // i32 (batch..)
// Rows of x (.., m, k) in the order of indices (.., m), or back to where they came from.
Tensor permute_rows(const Tensor& x, const Tensor& indices);
Tensor unpermute_rows(const Tensor& x, const Tensor& indices);

// ---- what the rows decompose to (core/op/decompose.h): kernels (shaders/*.hk), which only decompositions record. Not
// in the op table.
// clang-format off
//   cholesky_block     a (B, n, n), n <= 128              cholesky's pack
//   lu_panel           a (B, m, n), n <= 128              lu's pack
//   triangular_block   t (B, n, n), b (B, n, k)           solve_triangular, its attributes
//   join_blocks        blocks that are there              [a, b; c, d], ints = {RIGHT, BELOW} of shaders/blocks.hk
//   qr_panel           a (B, m, n), n <= 64               R, T^T and Y of shaders/qr.hk, ints = {WIDTH}
//   tridiagonal        (B, n + 5, pitch)                  the same after reflections, ints = {n, first, last};
//                                                         shaders/tridiagonal.hk
//   bidiagonal         (B, 2 n + 7, pitch)                the same, ints = {n, first, last}; shaders/bidiagonal.hk
//   tridiagonal_sweeps (B, at least 2 n + 1)              d, e, done, sweeps and rotations, ints = {n, sweeps, room};
//                                                         shaders/tridiagonal_sweeps.hk
//   bidiagonal_sweeps  (B, at least 2 n + 1)              the same; shaders/bidiagonal_sweeps.hk
//   rotate_rows        what sweeps made, (B, n, c)        (B, n, c), ints = {count, table, angles, step};
//                                                         shaders/rotate_rows.hk
//   rotate             (B, 2 n n + 2)                     the same after rotations, ints = {symmetric, n, count, p, q};
//                                                         shaders/jacobi.hk
// clang-format on
extern const OpDef cholesky_block_op, lu_panel_op, triangular_block_op, join_blocks_op, qr_panel_op, tridiagonal_op,
    bidiagonal_op, tridiagonal_sweeps_op, bidiagonal_sweeps_op, rotate_rows_op, rotate_op;

}  // namespace heddle::linalg
