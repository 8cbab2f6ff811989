// The problem of an attention vertex, for lowering and for rewrites.
// Thread safety: pure functions.
#pragma once

#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/ir/ir.h"

namespace heddle {

AttentionProblem attention_problem(const Graph& graph, const IrNode& node);
// With nominal sizes in place of those that vary (core/ir/dynamic_sizes.h).
AttentionSizes nominal_sizes(const Graph& graph, const IrNode& node, AttentionSizes sizes);
// Whether an operand is read as it lies.
bool attention_accepts(const IrNode& node, size_t input, const View& view);

}  // namespace heddle
