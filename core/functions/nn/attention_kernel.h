// What the kernels of attention compute, of a recorded node and of a row that is no node yet.
//
// Purpose: whoever records attention, rewrites into it or lowers it asks here which rows have a kernel.
// Thread safety: pure functions.
#pragma once

#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/tiles/attention_tiles.h"

namespace heddle {

// What a schedule depends on. `dtype` is that of the queries.
AttentionSizes attention_sizes(const AttentionProblem& problem, DType dtype);
// Which gradient the row `op` of that shape is.
AttentionGradient attention_gradient(const OpDef& op, const Shape& shape, const AttentionProblem& problem);
// How many columns one work item runs over.
int64_t attention_columns(const AttentionProblem& problem, const AttentionGradient& gradient);
// Whether there is a kernel for the node on its device. Where a driver ends long loops in silence, long rows are left
// to the unfused graph.
bool attention_takes(const Node& node);
// The same of a row that is no node yet: `problem` as attention_problem() reads it, `dtype` of the queries.
bool attention_takes(const OpDef& op, const Shape& shape, const AttentionProblem& problem, DType dtype,
                     const Caps& caps);

// A row that only rewrites make: inputs and attrs of attention_query_gradient; flat f32: (B, N, J, D), (B, N, J, E),
// (B, M, H, D).
extern const OpDef attention_gradients_op;

}  // namespace heddle
