// The memory planner: which bytes each stored vertex gets, for as long as it is needed.
//
// Purpose: temporaries of one graph share an arena: two whose lifetimes do not overlap may get the same bytes. Values
// that outlive the graph get storage of their own. Invariants: every read has an earlier writer; ranges of overlapping
// lifetimes never overlap; offsets are multiples of the alignment; no block is larger than the limit. Thread safety:
// pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// A temporary of the arena, alive from the kernel that writes it to the last that reads it (indices into the kernel
// list, inclusive).
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

// Everything a CompiledGraph needs besides kernels: where each vertex lies.
struct MemoryPlan {
  std::vector<Lifetime> lifetimes;
  ArenaPlan arena;
  std::map<int, size_t> temporaries;  // vertex -> index into lifetimes
  std::map<int, size_t> own_storage;  // vertex -> index of storage made anew for each run
  std::vector<uint64_t> own_bytes;
  uint64_t host_bytes = 0;   // page-locked memory for values that are offloaded
  uint64_t lower_bound = 0;  // most bytes of temporaries alive at once
  int fullest = 0;           // the kernel during which they are
  std::string str() const;
};

// Throws std::logic_error when a kernel reads what nobody wrote.
MemoryPlan plan_memory(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Caps& caps);

}  // namespace heddle
