// The rewrites of specialize(): one function per algorithm, each in a file specialize_*.cpp, and how they make
// vertices.
//
// Purpose and invariants: core/specialise/specialize.h. Thread safety: pure functions of the graph they extend.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/ir.h"

namespace heddle {

// Looks at a vertex whose inputs are already vertices of `out`; adds what replaces it and returns the replacement, or
// -1 to leave it as it is.
using Rewrite = int (*)(Graph& out, const IrNode& node, const Caps& caps);

// Long reductions in stages: specialize_reduce.cpp.
int split_reduction(Graph& out, const IrNode& node, const Caps& caps);
// Products with few results and a long inner dimension -> partial products and their sum; with an inner dimension of 1
// -> elementwise: specialize_matmul.cpp.
int split_matmul(Graph& out, const IrNode& node, const Caps& caps);
// Sorts, scans and scatters of several kernels: specialize_rows.cpp.
int long_sort(Graph& out, const IrNode& node, const Caps& caps);
int long_scan(Graph& out, const IrNode& node, const Caps& caps);
int sorted_scatter(Graph& out, const IrNode& node, const Caps& caps);
// Attention of few queries in ranges of keys: specialize_attention.cpp.
int split_attention(Graph& out, const IrNode& node, const Caps& caps);
// The gradients of the queries and of the keys and values of one attention, by number of vertex: where one kernel for
// both pays. Both vertices of a pair are replaced by views of its result.
class AttentionPairs {
 public:
  AttentionPairs(const Graph& graph, const Caps& caps);
  // The replacement for vertex `id` of the graph, whose inputs are already those of `out`; -1 when it belongs to no
  // pair.
  int replace(Graph& out, size_t id, const IrNode& node);

 private:
  std::vector<int> pair_;    // of each vertex; -1: none
  std::vector<int> packed_;  // of each pair, in `out`; -1: not made yet
};

// The weight gradient of a convolution, a long sum over pixels with few results -> partial sums of runs of rows, and
// their sum; convolutions of small images on GPUs -> of runs of channels.
int split_conv(Graph& out, const IrNode& node, const Caps& caps);

}  // namespace heddle
