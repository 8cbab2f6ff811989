// Operands of hand-written bodies: a view of memory, perhaps with a cheap function applied to each element.
// Thread safety: pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "core/exec/emit.h"

namespace heddle {

struct Operand {
  SlotRef slot;
  View view;
  DType dtype = DType::f32;
  std::string function;  // over the variable given to resolve_operand; that variable itself when there is none
};

// Follows the operand down through views and inlined unary vertices to memory.
Operand resolve_operand(const ScheduledGraph& scheduled, const Group& group, int id, const std::string& variable);

// A body's group whose result lies in its first operand's memory: it writes only what differs (BodyRow::updates).
bool updates_operand(const ScheduledGraph& scheduled, const Group& group);

// The batch dimensions of two matmul operands as at most two loops.
struct MatmulBatch {
  std::array<int64_t, 2> sizes{1, 1};
  std::array<int64_t, 2> a_strides{0, 0};
  std::array<int64_t, 2> b_strides{0, 0};
};
// Nothing when more than two loops are needed.
std::optional<MatmulBatch> try_matmul_batch(const View& a, const View& b);
MatmulBatch matmul_batch(const View& a, const View& b);

}  // namespace heddle
