// The planner of loops: one plan for the body, launched for every iteration with other offsets
// (core/memory/planned_loop.h).
//
// Purpose: plan_loops() chooses what the body of each loop must store (what vertices ask the loop for), plans it like a
// graph of its own, and says where its storage slots lie in iteration t; the vertices that asked become views of the
// loop's results. In the plan around it a loop is one kernel that reads its operands and writes its results, one of
// which is the memory for the body's temporaries. Where things lie: slices and stacked values in rows, one per
// iteration, whose bytes are multiples of the device's alignment, so that kernels are the same for all rows; a carry
// that nobody stacks in two buffers in turn; one whose values before each iteration are asked for in rows of which the
// first is its initial value; a carry that is also stacked is read where it was stacked. Invariants: the kernels and
// the memory for temporaries do not depend on the length. What is constant, a host value or unchanged is no carry and
// no operand. Thread safety: pure functions.
#pragma once

#include <functional>

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/memory/plan.h"

namespace heddle {

// How a body becomes a plan: as a graph that is no body does (core/run/planner.h).
struct BodyPlanner {
  std::function<Graph(const Graph& imported)> prepare;
  std::function<Plan(Graph prepared)> plan;
};

// Loops of `graph` that have no plan yet get theirs.
Graph plan_loops(Graph graph, const Caps& caps, const BodyPlanner& planner);

}  // namespace heddle
