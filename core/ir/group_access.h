// What the scheduler asks about a group's index space and its vertices.
//
// Invariants: answers are about shapes and paths alone, so they hold for every device. Thread safety: pure functions.
#pragma once

#include <optional>

#include "heddle/core/ir/uses.h"

namespace heddle {

// Linear element index, in row-major order of the vertex, that `use` reads; nothing when it is not affine.
std::optional<Index> linear_access(const Graph& graph, const Use& use);
// Does `access` run over `shape` in row-major order, variables starting at `first`, and over no other variable?
bool is_dense_over(const Index& access, const Shape& shape, int first);
// domain x inner.
Shape full_shape(const Group& group);
// The reduced dimensions, without those of size 1.
Shape reduced_shape(const Graph& graph, const IrNode& reduction);
// Is there, at most `depth` steps below, a reduction that gives a value to each of `rows` from `inner`?
bool comes_from_reduction(const Graph& graph, int id, const Shape& rows, const Shape& inner, int depth);

// A vertex that is a kernel's work, or part of one: not a view, not a constant.
bool is_anchor_kind(const IrNode& node);
// May the cheap unary function `id` of one operand of the group's matmul be applied while that operand is loaded?
bool is_prologue(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, int id,
                 const std::vector<Use>& uses);
// Within the number of vertices and bindings of one kernel?
bool fits_kernel(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, uint32_t max_bindings);

}  // namespace heddle
