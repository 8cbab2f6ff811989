// Capture: from pending nodes to a graph and the key under which its plan is found again.
//
// Invariants: equal keys mean equal plans. Thread safety: the nodes without a value belong to the calling thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/ir.h"

namespace heddle {

// Collects everything `roots` need. Nodes held by a Tensor become outputs.
Capture capture(std::span<const NodePtr> roots);
// The captured nodes as a Graph; fused rows decomposed. `varies`: of each node of the order (core/ir/dynamic_sizes.h);
// empty: nothing does.
Graph import_graph(const Capture& captured, const std::vector<uint16_t>& varies = {});

}  // namespace heddle
