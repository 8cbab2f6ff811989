// Budgets: what the planner computes again so that a step fits. Needs no device.
#ifdef HEDDLE_HAS_BENCH

#include "heddle/core/memory/memory_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/training_step.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/memory/kernel_sequence.h"
#include "heddle/core/memory/rematerialize.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/planner.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::null_device;

// The report of the second step, under a budget.
class Step {
 public:
  explicit Step(const char* text) : step_(bench::make_training_step(text, null_device())) {
    step_.record();
    eval_pending();
    loss_ = step_.record();
  }
  ~Step() { eval_pending(); }
  MemoryReport plan(uint64_t budget) const {
    const MemoryBudget scope(budget);
    return plan_pending();
  }

 private:
  bench::TrainingStep step_;
  Tensor loss_;
};

uint64_t least_of(const Step& step) {
  try {
    step.plan(1);
  } catch (const BudgetError& error) {
    EXPECT_NE(std::string(error.what()).find("needs at least"), std::string::npos) << error.what();
    return error.needed();
  }
  ADD_FAILURE() << "a budget of one byte was met";
  return 0;
}

TEST(MemoryBudget, StepsFitWhatTheyAreGivenDownToAMinimumThatHolds) {
  for (const char* text : {"mlp:32", "cnn:16", "gpt:2x32x4x32"}) {
    const Step step(text);
    const MemoryReport free = step.plan(0);
    const uint64_t least = least_of(step), fixed = free.peak() - free.arena;
    EXPECT_LE(least, free.peak()) << text;
    for (const uint64_t percent : {100, 90, 75, 60, 50, 40, 35, 25}) {
      const uint64_t budget = fixed + free.arena * percent / 100;
      if (budget < least) {
        EXPECT_THROW(step.plan(budget), BudgetError) << text << " " << percent;
        continue;
      }
      const MemoryReport planned = step.plan(budget);
      EXPECT_LE(planned.peak(), budget) << text << " " << percent;
      EXPECT_GE(planned.kernels, free.kernels) << text;
      EXPECT_TRUE(percent < 100 || planned.kernels == free.kernels) << text;
    }
    EXPECT_LE(step.plan(least).peak(), least) << text;
    EXPECT_THROW(step.plan(least - 4096), BudgetError) << text;
  }
}

// A clock would measure what else the machine does: counted is what takes the time, a walk over all launches.
TEST(MemoryBudget, ABudgetIsMetInFewWalksOverTheStep) {
  const Step step("gpt:4x128x12x128");
  const Caps& caps = null_device().caps();
  const Plan plain = make_plan(prepare(import_graph(capture(held_pending())), caps), caps);
  for (const int64_t percent : {75, 35}) {
    const int64_t bytes = static_cast<int64_t>(plain.memory.arena.total()) * percent / 100;
    const Rematerialized made = rematerialize(plain.scheduled, plain.kernels, caps, bytes);
    EXPECT_TRUE(made.fits) << percent;
    EXPECT_GT(made.repeated, 0u) << percent;
    EXPECT_LE(made.followed, 2 * made.repeated + 1)
        << percent << " % of the arena, " << made.repeated << " launches repeated";
  }
}

// Every read has the value that was meant: a sequence of launches over versions is followed with symbols instead of
// bytes.
TEST(MemoryBudget, RepeatedLaunchesReadWhatTheOriginalsRead) {
  for (const char* text : {"gpt:2x32x4x32", "cnn:16"}) {
    const Step step(text);
    const Capture captured = capture(held_pending());
    const Caps& caps = null_device().caps();
    const Plan plain = make_plan(prepare(import_graph(captured), caps), caps);
    const Rematerialized least = rematerialize(plain.scheduled, plain.kernels, caps, 0);
    EXPECT_FALSE(least.fits);
    EXPECT_GT(least.repeated, 0u) << text;
    // plan_memory() throws where a read has no writer. Original vertex of each vertex of the new graph: equal op and
    // inputs, so follow names.
    ScheduledGraph scheduled = plain.scheduled;
    scheduled.graph = least.graph;
    EXPECT_LT(plan_memory(scheduled, least.kernels, caps).arena.total(), plain.memory.arena.total()) << text;
    std::map<SlotRef, uint64_t> value;  // what a slot holds, as a number that depends on all that went into it
    const auto run = [](const std::vector<LoweredKernel>& kernels, std::map<SlotRef, uint64_t>& memory) {
      std::map<int, uint64_t> inputs;
      for (const LoweredKernel& kernel : kernels) {
        const auto unit = [&](const std::vector<SlotRef>& slots, const std::vector<uint32_t>& constants) {
          uint64_t hash = std::hash<std::string>()(kernel.source.name) ^ kernel.source.hash();
          for (uint32_t c : constants) hash = hash * 1099511628211u + c;
          for (size_t b = 0; b < slots.size(); ++b) {
            if (kernel.source.buffers[b].access == Access::write) continue;
            const auto at = memory.find(slots[b]);
            if (slots[b].kind == SlotRef::Kind::vertex && at == memory.end())
              ADD_FAILURE() << kernel.source.name << " reads what nobody wrote";
            const uint64_t read =
                at != memory.end() ? at->second
                                   : static_cast<uint64_t>(slots[b].index) + 77 * static_cast<uint64_t>(slots[b].kind);
            hash = (hash ^ read) * 0x9fb21c651e98df25ull;
          }
          for (size_t b = 0; b < slots.size(); ++b) {
            if (kernel.source.buffers[b].access != Access::read) memory[slots[b]] = hash + b;
          }
        };
        if (kernel.joined.empty()) unit(kernel.bindings, kernel.constants);
        for (const LoweredKernel::JoinedRow& row : kernel.joined) unit(row.bindings, row.constants);
      }
    };
    std::map<SlotRef, uint64_t> before, after;
    run(plain.kernels, before);
    run(least.kernels, after);
    for (const auto& [slot, expected] : before) {
      const bool outlives = slot.kind == SlotRef::Kind::input ||
                            std::any_of(plain.scheduled.outputs.begin(), plain.scheduled.outputs.end(),
                                        [&](const OutputPlan& o) { return o.base == slot.index; });
      EXPECT_TRUE(!outlives || after.at(slot) == expected) << text << ": " << slot.index;
    }
  }
}

TEST(MemoryBudget, ScopesNestAndTheDeviceHasItsOwn) {
  DeviceContext& d = null_device();
  EXPECT_EQ(memory_budget(d), 0u);
  set_memory_budget(d, 1000);
  EXPECT_EQ(memory_budget(d), 1000u);
  {
    const MemoryBudget outer(500);
    EXPECT_EQ(memory_budget(d), 500u);
    {
      const MemoryBudget none(0);
      EXPECT_EQ(memory_budget(d), 0u);
    }
    EXPECT_EQ(memory_budget(d), 500u);
  }
  set_memory_budget(d, 0);
  EXPECT_EQ(memory_budget(d), 0u);
}

TEST(MemoryBudget, AStepThatDoesNotFitComputesNothingAndCanBeTriedAgain) {
  DeviceContext& d = null_device();
  const Tensor x = Tensor::from_vector(std::vector<float>(4096, 1.0f), {4096}, &d);
  const Tensor y = exp(x) * 2.0f;
  {
    const MemoryBudget budget(100);
    EXPECT_THROW(eval({y}), BudgetError);
    EXPECT_FALSE(y.node()->has_value());
  }
  EXPECT_NO_THROW(eval({y}));
}

}  // namespace
}  // namespace heddle

#endif
