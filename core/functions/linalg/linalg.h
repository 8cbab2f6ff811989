// Linear algebra: factorizations, systems, spectra and functions of matrices.
//
// Purpose: what numpy.linalg and torch.linalg offer, under PyTorch's names and with its meaning, batched over all
// leading axes. f32 is computed in f32 and f64 in f64 (where the device has it); f16 and bf16 are computed in f32 and
// rounded to their dtype at the end; other dtypes are a DTypeError. Systems broadcast the batch axes of their operands.
// Gradients exist to any order, also in forward mode and under vmap; docs/gradients.md has their sources and
// conventions.
//
// When a matrix does not allow what was asked (singular, not positive definite), results are NaN or infinite, never
// silently wrong, and the next observation of a tensor on this thread throws a LinAlgError that names function, matrix
// and pivot (core/functions/linalg/info_check.h). The _ex functions give that number, `info`, as i32 (batch..) instead,
// 0 for success, and never throw. Inside of compile(), vmap() and scan() nothing throws: use the _ex functions there.
//
// Errors: ShapeError (rank below 2, not square, sizes that differ), DTypeError, ValueError. Thread safety: recording is
// per thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// ---- triangular systems
struct TriangularOptions {
  bool upper = false;       // which triangle of t is read
  bool left = true;         // op(t) x = b, else x op(t) = b
  bool transposed = false;  // op(t) is t^T
  bool unit = false;        // the diagonal counts as ones and is not read
};
// t (.., n, n), b (.., n, k), or (.., k, n) on the right. A zero on the diagonal divides: infinities and NaN, no error,
// as in PyTorch.
Tensor solve_triangular(const Tensor& t, const Tensor& b, TriangularOptions options = {},
                        Caller caller = Caller::current());

// ---- symmetric positive definite matrices
// L with L L^T = x; with `upper` its transpose U, U^T U = x. Only that triangle of x is read. The gradient is
// symmetric.
Tensor cholesky(const Tensor& x, bool upper = false, Caller caller = Caller::current());
struct CholeskyInfo {
  Tensor factor, info;
};
CholeskyInfo cholesky_ex(const Tensor& x, bool upper = false, Caller caller = Caller::current());
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false,
                      Caller caller = Caller::current());  // x of L L^T x = b; b (.., n, k)
Tensor cholesky_inverse(const Tensor& factor, bool upper = false, Caller caller = Caller::current());  // of L L^T

// ---- LU factors with row exchanges, x = P L U
struct LUFactors {
  Tensor factors;      // (.., m, n): U, and below its diagonal L, whose diagonal is ones
  Tensor permutation;  // i32 (.., m): row i of L U is row permutation[i] of x. PyTorch's pivots are exchanges instead
  Tensor info;         // i32 (..): from 1, the first pivot that is 0
};
LUFactors lu_factor(const Tensor& x,
                    Caller caller = Caller::current());  // never throws, as in PyTorch: a singular matrix has factors
struct LUMatrices {
  Tensor p, l, u;  // (.., m, m), (.., m, k), (.., k, n), k = min(m, n)
};
LUMatrices lu(const Tensor& x, Caller caller = Caller::current());
struct LUSolveOptions {
  bool left = true;         // op(x) y = b, else y op(x) = b
  bool transposed = false;  // op(x) is x^T
};
Tensor lu_solve(const LUFactors& factors, const Tensor& b, LUSolveOptions options = {},
                Caller caller = Caller::current());

// ---- systems, inverses and determinants, by LU
struct SolveInfo {
  Tensor result, info;
};
// a (.., n, n); b (.., n, k), or a vector (n), or vectors (.., n) where that is a's shape without its last axis. left
// false: x a = b, of matrices.
Tensor solve(const Tensor& a, const Tensor& b, bool left = true, Caller caller = Caller::current());
SolveInfo solve_ex(const Tensor& a, const Tensor& b, bool left = true, Caller caller = Caller::current());
Tensor inverse(const Tensor& x, Caller caller = Caller::current());
SolveInfo inverse_ex(const Tensor& x, Caller caller = Caller::current());
Tensor det(const Tensor& x,
           Caller caller = Caller::current());  // of singular matrices too, with the gradient of the limit
struct SignedLogDet {
  Tensor sign, logabsdet;  // 0 and -infinity of a singular matrix
};
SignedLogDet slogdet(const Tensor& x, Caller caller = Caller::current());
Tensor logdet(const Tensor& x, Caller caller = Caller::current());  // NaN where the determinant is negative

}  // namespace heddle
