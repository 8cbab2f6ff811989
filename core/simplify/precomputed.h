// Values that depend on nothing a graph changes: computed by the first run, kept for the next ones.
//
// Purpose: weights into which a normalisation was folded (core/simplify/fold_batch_norm.cpp), and those that a loop
// reads turned (core/run/loop_factors.h), cost nothing when an inference step repeats. Invariants: what is computed
// once depends on stored values alone, none of which the graph itself overwrites; the graph compares owners and
// versions of these storages before each run (core/run/compiled_graph.cpp) and computes anew when one has changed.
// Thread safety: pure function.
#pragma once

#include <optional>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

struct OnceSplit {
  Graph once;              // its outputs are the values, in order
  Graph rest;              // reads them as inputs: slots from the old graph's storage_slots on
  std::vector<int> slots;  // input storages that `once` reads
};
// Nothing when no vertex is marked (IrNode::once), or none may be.
std::optional<OnceSplit> split_once(const Graph& graph);

}  // namespace heddle
