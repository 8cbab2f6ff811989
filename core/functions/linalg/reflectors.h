// Products of Householder reflections by blocks: most of the work is in matrix products.
//
// Purpose: reflections that follow each other, kept as blocks I - Y T Y^T of some columns (Schreiber and Van Loan, "A
// storage-efficient WY representation for products of Householder transformations", 1989). Internal to
// core/functions/linalg. Invariants: matrices are (B, m, n) of f32 or f64. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::linalg {

// I - Y T Y^T of rows first .. m - 1; y (B, m - first, k), t (B, k, k) upper triangular.
struct ReflectorBlock {
  int64_t first = 0;
  Tensor y, t;
};

// R (B, min(m, n), n), upper triangular but for what lies below the diagonal, which is arbitrary; a = Q R, where Q is
// the product of `blocks` in their order.
Tensor factor_by_panels(const Tensor& a, std::vector<ReflectorBlock>& blocks);

// Blocks of the reflections I - tau_k v_k v_k^T, whose vectors are rows (B, k, at least m), zero in front of element k;
// taus (B, k).
std::vector<ReflectorBlock> blocks_of(const Tensor& rows, const Tensor& taus, int64_t m);

// The first `columns` columns of the product of the blocks, in their order; (B, m, columns).
Tensor orthogonal(const std::vector<ReflectorBlock>& blocks, int64_t columns);

// [a, b; c, d] as a kernel of its own (shaders/blocks.hk), of m x n.
Tensor join(std::initializer_list<Tensor> blocks, int64_t right, int64_t below, int64_t m, int64_t n);

}  // namespace heddle::linalg
