// Import: from captured nodes to the planner's graph.
//
// Invariants: fused rows, and bodies that no kernel takes, are decomposed; vertices stand in the order of the nodes.
// Thread safety: as capture().
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

// The captured nodes as a Graph; fused rows decomposed. `varies`: of each node of the order (core/ir/dynamic_sizes.h);
// empty: nothing does.
Graph import_graph(const Capture& captured, const std::vector<uint16_t>& varies = {});

}  // namespace heddle
