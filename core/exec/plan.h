// The memory planner: which bytes each stored vertex gets, for as long as it is needed.
//
// Purpose: temporaries of one step share an arena: two whose lifetimes do not overlap may get the same bytes. Values that outlive the step
// get storage of their own. Invariants: every read has an earlier writer; ranges of overlapping lifetimes never overlap; offsets are multiples
// of the alignment; no block is larger than the limit. Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/exec/emit.h"
#include "core/exec/memory_budget.h"
#include "core/exec/passes/passes.h"

namespace heddle {

// A temporary of the arena, alive from the kernel that writes it to the last that reads it (indices into the kernel list, inclusive).
struct Lifetime {
  int vertex = -1;
  uint64_t bytes = 0;
  int first = 0;
  int last = 0;
};
struct Placement {
  int block = 0;
  uint64_t offset = 0;
};

struct ArenaPlan {
  std::vector<Placement> placements;  // parallel to the lifetimes
  std::vector<uint64_t> block_bytes;
  uint64_t total() const;
};

// Largest first, each at the lowest offset that is free for its whole life.
ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes, uint64_t alignment, uint64_t largest_block);

// Everything a Step needs besides kernels: where each vertex lies.
struct Plan {
  std::vector<Lifetime> lifetimes;
  ArenaPlan arena;
  std::map<int, size_t> temporaries;   // vertex -> index into lifetimes
  std::map<int, size_t> own_storage;   // vertex -> index of storage made anew for each run
  std::vector<uint64_t> own_bytes;
  uint64_t host_bytes = 0;             // page-locked memory for values that are offloaded
  uint64_t lower_bound = 0;            // most bytes of temporaries alive at once
  int fullest = 0;                     // the kernel during which they are
  std::string str() const;
};

// Throws std::logic_error when a kernel reads what nobody wrote.
Plan make_plan(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Caps& caps);

// A graph as specialize() leaves it, all the way: scheduled, lowered, placed.
struct PlannedStep {
  ScheduledGraph scheduled;
  std::vector<LoweredKernel> kernels;
  Plan plan;
};
// The captured graph as `caps` computes it best, verified after each stage of passes; with `fuse` false as it was recorded, but for what the device
// must have otherwise.
Graph prepare(const Graph& imported, const Caps& caps, bool fuse = true, PassSet passes = active_passes());
// Throws BudgetError when it cannot be made to fit.
PlannedStep plan_step(Graph prepared, const Caps& caps, bool fuse = true, PassSet passes = active_passes(), const StepBudget& budget = {});

}  // namespace heddle
