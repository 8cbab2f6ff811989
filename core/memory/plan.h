// Plan: a graph with everything that is decided about it.
// Thread safety: plain value.
#pragma once

#include <vector>

#include "core/ir/groups.h"
#include "core/ir/lowered_kernel.h"
#include "core/memory/arena.h"

namespace heddle {

// A graph as specialize() leaves it, all the way: scheduled, lowered, placed.
struct Plan {
  ScheduledGraph scheduled;
  std::vector<LoweredKernel> kernels;
  MemoryPlan memory;
};

}  // namespace heddle
