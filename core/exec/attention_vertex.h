// The problem of an attention vertex, for lowering and for rewrites.
// Thread safety: pure functions.
#pragma once

#include "core/exec/ir.h"
#include "core/graph/attention.h"
#include "core/kernel/attention_schedule.h"

namespace heddle {

AttentionProblem attention_problem(const Graph& graph, const IrNode& node);
// What a schedule depends on. `dtype` is that of the queries.
AttentionSizes attention_sizes(const AttentionProblem& problem, DType dtype);

}  // namespace heddle
