// The planner: a captured graph all the way to kernels and the places of values.
//
// Purpose: calls simplify/, specialise/, schedule/, lower/ and memory/ in order, each stage as far as the pass set
// says. Invariants: prepare() verifies the graph after each stage of passes. The same graph, capabilities and passes
// give the same plan. Thread safety: pure functions.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/core/memory/plan.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {

// The captured graph as `caps` computes it best, verified after each stage of passes; with `fuse` false as it was
// recorded, but for what the device must have otherwise.
Graph prepare(const Graph& imported, const Caps& caps, bool fuse = true, PassSet passes = active_passes());
// A prepared graph whose loops have their plans, and what these read beside it. make_plan() does the same where it was
// not done: what is computed once (core/simplify/precomputed.h) may be among it.
Graph with_planned_loops(Graph prepared, const Caps& caps, bool fuse = true, PassSet passes = active_passes());
// Throws BudgetError when it cannot be made to fit.
// `early`: outputs that are computed before what they do not need, in that order.
Plan make_plan(Graph prepared, const Caps& caps, bool fuse = true, PassSet passes = active_passes(),
               const Budget& budget = {}, const std::vector<int>& early = {});

}  // namespace heddle
