// The reference of each kind of op, over host arrays. See reference.h for what is exact and what rounds.
//
// Purpose: evaluate_reference() calls these, one node at a time; `in` are the values of the node's inputs, in order.
// Invariants: written for clearness, straight from the definitions in primitives.h; no code is shared with the lowering
// or with the decompositions, so that this can judge both. Thread safety: pure functions.
#pragma once

#include <span>

#include "heddle/core/base/host_array.h"
#include "heddle/core/graph/node.h"

namespace heddle::reference {

using Inputs = std::span<const HostArray* const>;

HostArray constant(const Node& node);
HostArray elementwise(const Node& node, Inputs in);
HostArray reduce(const Node& node, Inputs in);
HostArray movement(const Node& node, Inputs in);
HostArray index(const Node& node, Inputs in);
HostArray matmul(const Node& node, Inputs in);
HostArray body(const Node& node, Inputs in);
HostArray attention(const Node& node, Inputs in);
HostArray attention_gradient(const Node& node, Inputs in);
HostArray conv(const Node& node, Inputs in);    // the three convolution rows
HostArray packed(const Node& node, Inputs in);  // unpack_blocks, matmul_packed
HostArray random_uniform(const Node& node, Inputs in);
HostArray fused(const Node& node, Inputs in);
HostArray spectral(const Node& node, Inputs in);    // qr, eigh, svd and rotations of columns
HostArray condensing(const Node& node, Inputs in);  // reflections: the kernels qr_panel, tridiagonal, bidiagonal
HostArray sweeps(const Node& node, Inputs in);      // of tridiagonal and bidiagonal matrices, and rotate_rows
HostArray linear_algebra(const Node& node,
                         Inputs in);  // the rows of core/functions/linalg/linalg_rows.h and their kernels

// An array of zeros.
HostArray blank(const Shape& shape, DType dtype);
// The integer as a dtype holds it: wrapped to its width.
int64_t wrapped(int64_t value, DType dtype);
// Sums and products of integers wrap; unsigned arithmetic says so without undefined behaviour.
inline int64_t add_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t multiply_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
// Truncated toward zero, then wrapped; for bool: value != 0.
int64_t to_integer(double value, DType dtype);

// A shape seen as (outer, size, inner) around one axis.
struct Rows {
  int64_t outer = 1, size = 1, inner = 1;
  Rows(const Shape& shape, int axis);
  size_t at(int64_t o, int64_t k, int64_t i) const { return static_cast<size_t>((o * size + k) * inner + i); }
};

}  // namespace heddle::reference
