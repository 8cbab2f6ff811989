#include "heddle/core/memory/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/memory/plan.h"
#include "heddle/core/memory/rematerialize.h"

namespace heddle {
namespace {

thread_local std::optional<uint64_t> scoped;

// Rounded up, so that the figure of a message, given as a budget, is one that can be met.
std::string text_of(uint64_t bytes) {
  const uint64_t unit = bytes < (1 << 20) ? 1 << 10 : 1 << 20;
  return fmt::format("{} {}", ceil_div(bytes, unit), unit == 1 << 10 ? "KiB" : "MiB");
}

struct Fitting {
  Plan plan;
  Rematerialized made;
};

// The graph with its temporaries below `bytes` where that works, else with as little as can be.
Fitting fit(const Plan& plan, const Caps& caps, int64_t bytes) {
  Fitting fitting{plan, rematerialize(plan.scheduled, plan.kernels, caps, bytes)};
  fitting.plan.kernels = std::move(fitting.made.kernels);
  fitting.plan.scheduled.graph = std::move(fitting.made.graph);
  fitting.plan.scheduled.free_nodes.resize(fitting.plan.scheduled.graph.nodes.size(), false);
  fitting.plan.memory = plan_memory(fitting.plan.scheduled, fitting.plan.kernels, caps);
  fitting.plan.memory.host_bytes = plan.memory.host_bytes;
  return fitting;
}

}  // namespace

MemoryBudget::MemoryBudget(uint64_t bytes) : before_(std::exchange(scoped, bytes)) {}
MemoryBudget::~MemoryBudget() { scoped = before_; }
std::optional<uint64_t> MemoryBudget::scope() { return scoped; }

void set_memory_budget(DeviceContext& device, uint64_t bytes) { device.set_memory_budget(bytes); }

uint64_t memory_budget(const DeviceContext& device) { return scoped ? *scoped : device.memory_budget(); }

Budget graph_budget(const DeviceContext& device, const Capture& captured) {
  Budget budget{memory_budget(device), 0};
  if (budget.bytes > 0) {
    for (const StoragePtr& storage : captured.storages) budget.held += storage->bytes();
  }
  return budget;
}

void fit_budget(Plan& plan, const Budget& budget, const Caps& caps) {
  if (budget.bytes == 0) return;
  const uint64_t outputs = std::accumulate(plan.memory.own_bytes.begin(), plan.memory.own_bytes.end(), uint64_t{0}),
                 fixed = budget.held + outputs;
  if (fixed + plan.memory.arena.total() <= budget.bytes) return;
  if (budget.bytes > fixed) {
    // The arena is a little larger than what is alive at once, where ranges do not fit together: then the aim is
    // lowered by as much.
    constexpr int attempts = 6;
    int64_t aim = static_cast<int64_t>(budget.bytes - fixed);
    for (int attempt = 0; attempt < attempts && aim > 0; ++attempt) {
      Fitting fitting = fit(plan, caps, aim);
      const uint64_t arena = fitting.plan.memory.arena.total();
      if (fixed + arena <= budget.bytes) {
        plan = std::move(fitting.plan);
        return;
      }
      if (!fitting.made.fits) break;
      aim = std::min(aim, fitting.made.peak) - static_cast<int64_t>(fixed + arena - budget.bytes);
    }
  }
  Fitting smallest = fit(plan, caps, 0);
  const uint64_t least = std::min(plan.memory.arena.total(), smallest.plan.memory.arena.total());
  if (fixed + least <= budget.bytes) {
    plan = std::move(smallest.plan);
    return;
  }
  throw BudgetError(
      fmt::format("[memory budget] a budget of {} cannot be met: this step needs at least {} (it reads and updates {}, "
                  "its results are {}, its temporaries {} of "
                  "which recomputation leaves {}); a smaller batch, accumulation, 16-bit values or offload() need less",
                  text_of(budget.bytes), text_of(fixed + least), text_of(budget.held), text_of(outputs),
                  text_of(plan.memory.arena.total()), text_of(least)),
      fixed + least);
}

}  // namespace heddle
