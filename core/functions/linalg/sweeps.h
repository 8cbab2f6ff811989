// Spectra by condensed forms: a symmetric matrix becomes tridiagonal, a square one bidiagonal, by reflections from both
// sides; implicit QR sweeps make that diagonal, and their rotations turn the orthogonal factors.
//
// Purpose: four kinds of kernels (shaders/tridiagonal.hk, bidiagonal.hk, their sweeps, rotate_rows.hk) and the products
// of reflectors.h; each is one launch for all matrices of a batch. Internal to core/functions/linalg. Sources: Golub
// and Van Loan, "Matrix computations", 8.3 and 8.6; Demmel and Kahan, "Accurate singular values of bidiagonal
// matrices", 1990. Both methods are backward stable: what they find belongs to a matrix that is a small multiple of n
// roundings of its norm away, and the factors are orthogonal to as much, small and equal values included. Invariants:
// matrices are (B, n, n), n > 1, of norm about 1, where condenses() of tiles/linalg_tiles.h says yes. A NaN ends as
// one, after a bounded number of sweeps. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle::linalg {

// In no order: eigenvalues (B, n), eigenvectors as rows (B, n, at least n), 1 where the sweeps converged (B, 1).
struct SweptSymmetric {
  Tensor values, rows, done;
};
SweptSymmetric swept_symmetric(const Tensor& x);

// In no order: singular values of either sign (B, n), singular vectors as rows, of the left and of the right.
struct SweptSingular {
  Tensor values, left, right, done;
};
SweptSingular swept_singular(const Tensor& x);

}  // namespace heddle::linalg
