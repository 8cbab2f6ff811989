// What HEDDLE_DEBUG shows of a graph while it is planned (core/run/debug.h). Thread safety: as there.
#pragma once

#include <vector>

#include "heddle/core/ir/lowered_kernel.h"
#include "heddle/core/memory/plan.h"

namespace heddle {

void debug_graph(const Graph& before, const Graph& after, const Caps& caps);
void debug_plan(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const MemoryPlan& plan);

}  // namespace heddle
