// The rewrites of specialize(): one function per algorithm, each in a file specialize_*.cpp, and how they make vertices.
//
// Purpose and invariants: core/exec/specialize.h. Thread safety: pure functions of the graph they extend.
#pragma once

#include "core/device/device.h"
#include "core/exec/ir.h"

namespace heddle {

// Looks at a vertex whose inputs are already vertices of `out`; adds what replaces it and returns the replacement, or -1 to leave it as it is.
using Rewrite = int (*)(Graph& out, const IrNode& node, const Caps& caps);

// Long reductions in stages: specialize_reduce.cpp.
int split_reduction(Graph& out, const IrNode& node, const Caps& caps);
// Sorts, scans and scatters of several kernels: specialize_rows.cpp.
int long_sort(Graph& out, const IrNode& node, const Caps& caps);
int long_scan(Graph& out, const IrNode& node, const Caps& caps);
int sorted_scatter(Graph& out, const IrNode& node, const Caps& caps);
// Attention of few queries in ranges of keys: specialize_attention.cpp.
int split_attention(Graph& out, const IrNode& node, const Caps& caps);

// Vertices, with the attributes that core/graph/primitives.h says.
namespace rewrite {
int reshape(Graph& out, int x, const Shape& shape);
int slice(Graph& out, int x, int axis, int64_t start, int64_t count);
int cast(Graph& out, int x, DType dtype);
int full(Graph& out, const Shape& shape, DType dtype, double value);
int binary(Graph& out, const OpDef& op, int x, int y);
int gather(Graph& out, int x, int axis, int indices);
int expand(Graph& out, int x, const Shape& shape);
// A reduction over `axes` (ascending), which are dropped. The dtype is the input's, or i64 for argmax and argmin.
int reduce(Graph& out, const OpDef& op, int x, const std::vector<int64_t>& axes);
}  // namespace rewrite

// The weight gradient of a convolution, a long sum over pixels with few results -> partial sums of runs of rows, and their sum.
int split_conv_weight_grad(Graph& out, const IrNode& node, const Caps& caps);

}  // namespace heddle
