// Which right operands of products are worth turning on CPUs, for weights (turned_weights.h) and in loops
// (loop_factors.h). Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "heddle/core/ir/ir.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

// More rows turn panels of the matrix once for many of them (core/tiles/matmul_cpu_tiles.cpp); a small matrix costs a
// launch more than it saves.
inline constexpr int64_t most_rows_of_turned = 95, least_side_of_turned = 64;

inline bool is_transpose(const IrNode& node) {
  return node.op == &ops::permute_op && node.shape.rank() == 2 && order_of(node.attrs)[0] == 1;
}

}  // namespace heddle
