// What a kernel costs to run again, roughly: for choosing between kernels, not for predicting times.
//
// Invariants: positive. The unit is a byte of memory traffic; arithmetic and a launch are counted as the bytes that a
// device of the class would have moved meanwhile. Thread safety: pure functions.
#pragma once

#include <map>

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/groups.h"

namespace heddle {

// Operations of one vertex, each element computed once: as core/inspect/traffic.h counts them.
double vertex_operations(const Graph& graph, const IrNode& node);
// By vertex that a kernel stores: operations of the group that stores it.
std::map<int, double> stored_operations(const ScheduledGraph& scheduled);
// A launch that touches `bytes` and computes `operations`.
double launch_cost(double bytes, double operations, DeviceClass device_class);

}  // namespace heddle
