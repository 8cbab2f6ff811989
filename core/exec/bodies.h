// The rows of kind `body`: what the passes and lowering must know of each.
//
// Purpose: an op whose kernel is a hand-written body of shaders/ is one line in bodies.cpp; the scheduler, the materializer and lower() read that
// line and know no such op by name. Invariants: every OpDef of kind body has exactly one line. A body has one result; its operands are strided
// views of memory. Thread safety: immutable after first use.
#pragma once

#include "core/exec/lower.h"

namespace heddle {

struct BodyRow {
  const OpDef* op = nullptr;
  LoweredKernel (*lower)(const LowerInput& in) = nullptr;
  bool dense_operands = false;  // operands must lie densely in row-major order; else any strides
  // Whether an operand may be read as it lies; others are copied. Null: every view that dense_operands allows.
  bool (*accepts)(const IrNode& node, size_t input, const View& view) = nullptr;
  // Whether there is a kernel for this node; others are decomposed at import. Null: for all.
  bool (*takes)(const Node& node) = nullptr;
  // Floating-point operations of one result, for profiles (core/exec/traffic.h). Null: one per element.
  double (*flops)(const Graph& graph, const IrNode& node) = nullptr;
  // The result may lie in the first operand's memory: the kernel then writes only what differs. Taken where an assign wants it there, else decomposed.
  bool updates = false;
  bool epilogue = false;        // elementwise work on the result may join the group: `lower` prints it with print_epilogue()
};

// std::logic_error for an op that is no body.
const BodyRow& body_row(const OpDef& op);

LoweredKernel lower_scatter_rows(const LowerInput& in);
LoweredKernel lower_copy_rows(const LowerInput& in);
bool copy_rows_accepts(const IrNode& node, size_t input, const View& view);
bool copy_rows_takes(const Node& node);
LoweredKernel lower_attention(const LowerInput& in);
LoweredKernel lower_attention_gradient(const LowerInput& in);
bool attention_accepts(const IrNode& node, size_t input, const View& view);
bool attention_takes(const Node& node);
struct AttentionProblem;
// The same of a row that is no node yet: `problem` as attention_problem() reads it, `dtype` of the queries.
bool attention_takes(const OpDef& op, const Shape& shape, const AttentionProblem& problem, DType dtype, const Caps& caps);
LoweredKernel lower_conv(const LowerInput& in);  // and its two gradients
LoweredKernel lower_sort_blocks(const LowerInput& in);
LoweredKernel lower_sort_merge(const LowerInput& in);
LoweredKernel lower_scan(const LowerInput& in);
LoweredKernel lower_segment_add(const LowerInput& in);
LoweredKernel lower_cholesky_block(const LowerInput& in);
LoweredKernel lower_lu_panel(const LowerInput& in);
LoweredKernel lower_triangular_block(const LowerInput& in);
LoweredKernel lower_join_blocks(const LowerInput& in);
LoweredKernel lower_reflect(const LowerInput& in);
LoweredKernel lower_apply_reflections(const LowerInput& in);
LoweredKernel lower_rotate(const LowerInput& in);
LoweredKernel lower_user_body(const LowerInput& in);

// Rows that only rewrites make, not in the op table: lower_rows.cpp, lower_attention.cpp.
extern const OpDef sort_merge_op;   // x, indices; ints = {descending, run, most of a merged run}
extern const OpDef attention_gradients_op;  // inputs and attrs of attention_query_gradient; flat f32: (B, N, J, D), (B, N, J, E), (B, M, H, D)
extern const OpDef segment_add_op;  // base (may be absent: 0), index, order, updates

}  // namespace heddle
