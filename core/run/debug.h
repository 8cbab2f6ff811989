// HEDDLE_DEBUG: what a person sees of a graph on stderr. 1: device time of each kernel of each graph; 2: groups and
// memory plan of each new step; 3: its graph before and after, and what each pass did; 4: the source of each kernel.
// Thread safety: the level is read once; output goes line by line to stderr.
#pragma once

#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/inspect/kernel_facts.h"

namespace heddle {

int debug_level();
// At level 1 and above waits for the submission and prints its times, each line with the command that repeats that
// kernel alone.
void debug_times(DeviceContext& device, Ticket ticket, const std::vector<KernelFacts>& kernels);

}  // namespace heddle
