// The scheduler: which vertices become one kernel, and in which order kernels run.
//
// Purpose: groups elementwise chains, reductions with what comes before and after them over the same rows, and matmuls
// with their prologue and epilogue; everything else of a group is computed where it is needed and never stored.
// Invariants: every stored vertex belongs to exactly one group; groups are in an order in which every read has a writer
// and every in-place write comes after the last read of the old value; a group has one output domain, and at most one
// matmul or body. Thread safety: pure function of its input.
#pragma once

#include "heddle/core/ir/groups.h"
#include "heddle/core/schedule/schedule_limits.h"

namespace heddle {

ScheduledGraph schedule(Graph graph, const ScheduleLimits& limits);

}  // namespace heddle
