// Memory budgets: the automatic mode of checkpointing.
//
//   const MemoryBudget budget(512 << 20);     // for what this thread evaluates while it lives
//   set_memory_budget(device, 512 << 20);     // for everything on that device
//
// Purpose: a graph whose memory (what it reads and writes, its results and its temporaries together,
// MemoryReport::peak()) is above the budget gets a plan that computes values again instead of keeping them; which ones,
// core/memory/rematerialize.h chooses by bytes freed per work repeated. Memory of the device that the step does not
// touch does not count. Invariants: results are the same bits as without a budget: the same kernels run on the same
// values, some of them twice. A budget is part of what a plan is found by. It says nothing to operations that run one
// by one (EagerScope), nor to the reference device. Errors: BudgetError, with the least that would do, when a graph
// cannot be made to fit; nothing has run then. Thread safety: MemoryBudget is per thread; set_memory_budget() may be
// called from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/core/base/error.h"

namespace heddle {

class DeviceContext;
struct Caps;
struct Capture;
struct Plan;

class MemoryBudget {
 public:
  // Bytes for each graph; 0: none, whatever is set for the device. The innermost scope counts.
  explicit MemoryBudget(uint64_t bytes);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;
  // What the innermost scope of this thread says.
  static std::optional<uint64_t> scope();

 private:
  std::optional<uint64_t> before_;
};

// Bytes for each graph on the device; 0: none. Steps in flight are not changed.
void set_memory_budget(DeviceContext& device, uint64_t bytes);
// What counts for this thread on that device; 0: none.
uint64_t memory_budget(const DeviceContext& device);

// The budget as it concerns one graph.
struct Budget {
  uint64_t bytes = 0;  // 0: none
  uint64_t held = 0;   // of it, what the graph reads and updates
};
Budget graph_budget(const DeviceContext& device, const Capture& captured);
// Makes the planned graph fit; throws BudgetError.
void fit_budget(Plan& plan, const Budget& budget, const Caps& caps);

}  // namespace heddle
