// Reductions whose lanes are work items (GPUs, and CPUs whose driver vectorises over items).
//
// Invariants: reductions keep the order of the loop within a lane; lanes are joined by a tree. Thread safety: pure
// functions over their argument.
#pragma once

#include "heddle/core/lower/reduce_rows.h"

namespace heddle {

// A lane has a row of its own.
LoweredKernel rows_as_items(ReduceRows& g);
// The lanes of a group share a row; a tree in shared memory joins them.
LoweredKernel row_over_items(ReduceRows& g);

}  // namespace heddle
