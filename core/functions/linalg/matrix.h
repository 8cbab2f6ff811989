// Orthogonal factors, spectra, and functions of matrices that are made of them.
//
// Purpose: the second half of linalg.h, whose words on dtypes, batch axes, gradients, failures and errors hold here as
// well. qr, eigh and svd are backward stable: residuals and orthogonality are small multiples of n roundings, of small
// and equal values too. Half of their work is in matrix products and in rotations that run side by side; the other half
// passes over the matrix once or twice a column, a batch at a time. Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/functions/linalg/linalg.h"

namespace heddle {

// ---- x = q r
enum class QRMode : uint8_t {
  reduced,   // q (.., m, k), r (.., k, n), k = min(m, n)
  complete,  // q (.., m, m), r (.., m, n); the columns beyond k are arbitrary: a gradient that reaches q is a GradError
  r          // r (.., k, n) alone
};
struct QR {
  Tensor q, r;
};
// Householder reflections, signs as LAPACK's. The gradient wants full rank (in the first k columns).
QR qr(const Tensor& x, QRMode mode = QRMode::reduced, Caller caller = Caller::current());

// ---- symmetric matrices, x = V diag(w) V^T
struct Eigh {
  Tensor values, vectors;  // ascending; the columns
};
// Reads one triangle. Signs of vectors, and vectors of equal values, are arbitrary; gradients are those of functions
// that do not depend on that choice.
Eigh eigh(const Tensor& x, bool upper = false, Caller caller = Caller::current());
Tensor eigvalsh(const Tensor& x, bool upper = false, Caller caller = Caller::current());

// ---- x = U diag(s) V^T
struct SVD {
  Tensor u, s, vh;  // (.., m, k), descending (.., k), (.., k, n); with full_matrices u (.., m, m) and vh (.., n, n)
};
// The vectors that full_matrices adds are arbitrary: a gradient that reaches u (or vh) with such vectors is a
// GradError.
SVD svd(const Tensor& x, bool full_matrices = true, Caller caller = Caller::current());
Tensor svdvals(const Tensor& x, Caller caller = Caller::current());

// ---- of any rank
// What counts as 0 beside the largest singular value s: at most max(absolute, relative s). Default: relative = max(m,
// n) roundings of the dtype, unless absolute is given.
struct RankTolerance {
  std::optional<double> absolute, relative;
};
// Moore-Penrose inverse, by svd. The gradient (Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear
// least squares problems", 1973) is right where the rank is constant.
Tensor pinv(const Tensor& x, RankTolerance tolerance = {}, Caller caller = Caller::current());
Tensor matrix_rank(const Tensor& x, RankTolerance tolerance = {},
                   Caller caller = Caller::current());  // i64 (..); of integers too
// The y with the least |x y - b|, or of those with x y = b the smallest: by qr, of full rank (else a LinAlgError names
// the column). x (.., m, n), b (.., m, k).
Tensor lstsq(const Tensor& x, const Tensor& b, Caller caller = Caller::current());

// ---- norms of matrices, (.., m, n) to (..)
enum class MatrixNorm : uint8_t { frobenius, nuclear, one, minus_one, two, minus_two, infinity, minus_infinity };
Tensor matrix_norm(const Tensor& x, MatrixNorm norm = MatrixNorm::frobenius, bool keepdim = false,
                   Caller caller = Caller::current());
// |x| |x^-1|; two and minus_two, by svd, take any shape. Infinity for singular matrices.
Tensor condition_number(const Tensor& x, MatrixNorm norm = MatrixNorm::two, Caller caller = Caller::current());

// ---- functions of square matrices
// Scaling by a power of 2, Taylor's polynomial of degree 12 (f64: 18) by Paterson and Stockmeyer's scheme, squaring
// (Higham, "Functions of matrices", 2008, 4.2 and 10.3). Norms up to 2^16; beyond: NaN.
Tensor matrix_exp(const Tensor& x, Caller caller = Caller::current());

}  // namespace heddle
