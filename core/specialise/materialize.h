// Before grouping: makes explicit what must lie in memory.
//
// Purpose: inserts `copy` vertices where an operand of a matmul or body, or an output, is not a view of a stored value,
// and says for each output which vertex's storage holds it. Invariants: afterwards every operand and every output is a
// chain of views over a leaf or a vertex that becomes (part of) a kernel. Thread safety: pure function.
#pragma once

#include "heddle/core/ir/groups.h"

namespace heddle {

struct Materialized {
  Graph graph;
  std::vector<OutputPlan> outputs;
  std::map<int, Placed> placed;
};

// `max_bindings`: a concat along the outermost dimension becomes a join where it has more parts than half of that, or
// long ones that are computed or more than four, short constants beside them; along another dimension many parts are
// stored in partial ones. A join that is assigned lies in its target where the graph reads nothing of it, else it is
// copied there.
// `max_binding_bytes`: what picks from more is stored before it is read.
Materialized materialize(Graph graph, uint32_t max_bindings, uint64_t max_binding_bytes = UINT64_MAX);

}  // namespace heddle
