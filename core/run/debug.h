// HEDDLE_DEBUG: what a person sees of a graph on stderr. 1: device time of each kernel of each graph; 2: groups and
// memory plan of each new step; 3: its graph before and after, and what each pass did; 4: the source of each kernel.
// Thread safety: the level is read once; output goes line by line to stderr.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/inspect/traffic.h"
#include "heddle/core/ir/lowered_kernel.h"
#include "heddle/core/memory/plan.h"

namespace heddle {

int debug_level();
void debug_graph(const Graph& before, const Graph& after, const Caps& caps);
void debug_plan(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const MemoryPlan& plan);
// At level 1 and above waits for the submission and prints its times, each line with the command that repeats that
// kernel alone.
void debug_times(const std::string& id, Device& device, Ticket ticket, const std::vector<KernelFacts>& kernels);

}  // namespace heddle
