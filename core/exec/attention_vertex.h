// The problem of an attention vertex, for lowering and for rewrites.
// Thread safety: pure functions.
#pragma once

#include "core/exec/ir.h"
#include "core/graph/attention.h"
#include "core/kernel/attention_schedule.h"

namespace heddle {

AttentionProblem attention_problem(const Graph& graph, const IrNode& node);
// What a schedule depends on. `dtype` is that of the queries.
// With nominal sizes in place of those that vary (core/exec/varying.h).
AttentionSizes nominal_sizes(const Graph& graph, const IrNode& node, AttentionSizes sizes);
AttentionSizes attention_sizes(const AttentionProblem& problem, DType dtype);

}  // namespace heddle
