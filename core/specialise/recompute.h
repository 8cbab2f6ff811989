// Recomputation: values that are cheaper to compute twice than to keep.
//
// Purpose: a vertex inside a checkpoint (core/graph/checkpoint.h) is computed again, from what is kept, for its users
// outside; so it need not live from the forward to the backward pass. Invariants: same values: a copy has the op,
// attributes and inputs of its original, or copies of those; a vertex that is an output anyway is never copied. Copies
// stand right before their first user, so that the schedule, which follows the order of vertices, makes them late.
// Without any mark, a cast to fewer bytes of a tensor that lies in memory anyway (a weight in half precision) is
// computed again for its second and third reader. Thread safety: pure function.
#pragma once

#include "heddle/core/ir/ir.h"

namespace heddle {

Graph recompute(Graph graph);

}  // namespace heddle
