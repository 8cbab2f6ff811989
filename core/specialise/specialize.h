// Rewrites of the graph for one device, between simplify() and schedule().
//
// Purpose: algorithms of several kernels are written as graphs of several vertices (a long reduction in two stages, a
// product split along k), chosen from the device's facts; so one group stays one kernel, and memory between the stages
// is planned like any other. Invariants: same outputs, equal up to rounding; depends on the graph's shapes and the caps
// alone, so it is deterministic per device. Thread safety: pure functions.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {

// `passes`: those of stage device are looked at; what a limit of the device demands happens all the same.
Graph specialize(Graph graph, const Caps& caps, PassSet passes = active_passes());

}  // namespace heddle
