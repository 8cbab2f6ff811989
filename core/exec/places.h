// Which lines of the user's program each kernel of a step comes from.
//
// Purpose: profiles, dumps and faults name them. A vertex has the place of the recorded node that it came from (IrNode::origin); what a pass made for its
// own purpose has that of whoever reads it. Places are no part of a step's structure: a step that is found again, for a graph recorded by other lines,
// shows the places of its first recording.
// Invariants: places of a kernel are in the order of its vertices, each once, all known. Thread safety: pure functions.
#pragma once

#include <vector>

#include "core/base/caller.h"
#include "core/exec/emit.h"

namespace heddle {

// Of each vertex of a graph that any pass has made of the captured one.
std::vector<Place> vertex_places(const Graph& graph, const Capture& captured);
// Of each kernel, parallel to `kernels`.
std::vector<std::vector<Place>> kernel_places(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Capture& captured);

}  // namespace heddle
