// The rows of kind `body`: what the passes must know of each.
//
// Purpose: an op whose kernel is a hand-written body of shaders/ is one line in bodies.cpp, which the scheduler and the
// materializer read, and one in core/lower/body_lowering.cpp, which lower() reads; they know no such op by name.
// Invariants: every OpDef of kind body has exactly one line in each. A body has one result; its operands are strided
// views of memory. Thread safety: immutable after first use.
#pragma once

#include "heddle/core/ir/ir.h"

namespace heddle {

struct BodyRow {
  const OpDef* op = nullptr;
  bool dense_operands = false;  // operands must lie densely in row-major order; else any strides
  // Whether an operand may be read as it lies; others are copied. Null: every view that dense_operands allows.
  bool (*accepts)(const IrNode& node, size_t input, const View& view) = nullptr;
  // Whether there is a kernel for this node; others are decomposed at import. Null: for all.
  bool (*takes)(const Node& node) = nullptr;
  // Floating-point operations of one result, for profiles (core/inspect/traffic.h). Null: one per element.
  double (*flops)(const Graph& graph, const IrNode& node) = nullptr;
  // The result may lie in the first operand's memory: the kernel then writes only what differs. Taken where an assign
  // wants it there, else decomposed.
  bool updates = false;
  bool epilogue = false;  // elementwise work on the result may join the group: lowering prints it with print_epilogue()
};

// std::logic_error for an op that is no body.
const BodyRow& body_row(const OpDef& op);

// Rows that only rewrites make, not in the op table; another is in core/functions/nn/attention_kernel.h.
extern const OpDef sort_merge_op;   // x, indices; ints = {descending, run, most of a merged run}
extern const OpDef segment_add_op;  // base (may be absent: 0), index, order, updates

}  // namespace heddle
