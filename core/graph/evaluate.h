// evaluate(): turns pending nodes into values.
//
// Purpose: the only door from the lazy graph to a device. Invariants: after it returns, each of `roots` has a value;
// nodes held by a Tensor that were computed on the way have one too. Work is enqueued, not waited for. Thread safety:
// nodes of one graph are evaluated by one thread. Recording needs the door and knows nothing of what is behind it:
// these are defined in core/run/evaluate.cpp.
#pragma once

#include <span>

#include "heddle/core/graph/node_ptr.h"

namespace heddle {

// Evaluates `roots` together with everything this thread holds pending. `why`, where the program did not ask for just
// that: the region break is counted and logged under this reason. When it throws, what was not computed is pending as
// before.
void evaluate(std::span<const NodePtr> roots, const char* why = nullptr);
// Everything pending on this thread; inside a function that compile() traces nothing, as it evaluates at the function's
// end.
void evaluate_pending();
// Makes the collectives that this thread has recorded (core/graph/mesh_scope.h), in their order; what else `roots` and
// later collectives need of what is computed on the way is kept.
void make_collectives(std::span<const NodePtr> roots);
// Called by make_node: remembers the node as pending on this thread (and evaluates when eager or when too much is
// pending).
void note_pending(const NodePtr& node);

}  // namespace heddle
