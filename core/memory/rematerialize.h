// Rematerialization: launches that are repeated so that their results need not be kept meanwhile.
//
// Purpose: the automatic mode of checkpointing (core/memory/memory_budget.h). It works on the final list of kernels: at
// the fullest moment of the graph it takes the value whose memory comes cheapest, lets go of it after its last use
// before that moment, and launches again, before its next use, the kernel that made it, with those that made what this
// one reads and is gone. Again and again, until the temporaries fit. Invariants: same bits: what is repeated is the
// same kernel on the same values. Only kernels that write nothing but temporaries of their own are repeated, and never
// after an input of theirs was overwritten. The bytes alive at the fullest moment fall with every choice.
// Deterministic. Thread safety: pure function. Chen et al. 2016, "Training deep nets with sublinear memory cost";
// choosing by size, staleness and cost as Kirisame et al. 2021, "Dynamic tensor rematerialization", but planned.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

struct Rematerialized {
  std::vector<LoweredKernel> kernels;
  Graph graph;          // the graph with a further vertex for every value that is made again
  bool fits = false;    // otherwise as little memory as this gets to
  int64_t peak = 0;     // bytes of temporaries alive at once, alignment included
  size_t repeated = 0;  // launches added
  size_t followed = 0;  // sequences of launches whose memory was followed to the end: most of the time of planning
};

// Until no more than `bytes` are alive at once.
Rematerialized rematerialize(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                             const Caps& caps, int64_t bytes);

}  // namespace heddle
