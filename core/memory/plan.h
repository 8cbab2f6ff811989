// Plan: a graph with everything that is decided about it.
// Thread safety: plain value.
#pragma once

#include <vector>

#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"
#include "heddle/core/memory/arena.h"

namespace heddle {

// A graph as specialize() leaves it, all the way: scheduled, lowered, placed.
struct Plan {
  ScheduledGraph scheduled;
  std::vector<LoweredKernel> kernels;
  MemoryPlan memory;
};

}  // namespace heddle
