// Early outputs: kernels in an order in which what is wanted first is computed first.
//
// Purpose: gradients leave for other processes while the backward pass goes on (CompileOptions::ready). Invariants: an
// order respects every dependency through memory; kernels that are needed for the same early output stay in their
// order. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// Whether the kernel writes into the output's memory.
bool writes_output(const ScheduledGraph& scheduled, const LoweredKernel& kernel, const OutputPlan& output);

// By kernel: the first of ScheduledGraph::early that needs it; early.size(): none does.
std::vector<size_t> first_needed_for(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels);

// The order, those first that are needed first.
std::vector<size_t> order_for_early(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                                    std::vector<size_t> order);

}  // namespace heddle
