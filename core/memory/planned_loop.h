// PlannedLoop: a loop with a plan for its body, and where the body's slots lie in each iteration.
// core/run/loop_planner.h makes it.
//
// Invariants: the kernels and the memory for temporaries do not depend on the length.
// Thread safety: plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/memory/loop_places.h"
#include "heddle/core/memory/plan.h"

namespace heddle {

struct PlannedLoop : LoopPlaces {
  Plan body;
  std::vector<uint64_t> block_places;  // of the blocks of the body's arena in the workspace
  size_t operands = 0;                 // of the loop's own kernel
  size_t launches() const;             // of one run of the loop
};

// Launches of a kernel: 1, one for each of its sections, or those of a loop.
size_t launches_of(const LoweredKernel& kernel);

}  // namespace heddle
