// Weights that lie the wrong way round for a product of some rows.
//
// Purpose: on CPUs a product of a batch's rows by a small matrix that is read by columns (`linear(x, weight)`) turns
// the matrix while it multiplies, in every run: a third of the time of 32x128x784. turn_weights() gives such a product
// a turned copy, which a graph that repeats makes once and keeps (core/simplify/precomputed.h); loops have
// core/run/loop_factors.h. Invariants: only stored values that the graph does not overwrite are copied, so that no run
// turns them again until somebody writes them; results differ by nothing, as the order of sums is that of the inner
// dimension either way. The price is a second copy of weights of at most half a MiB each. Thread safety: pure function.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/ir.h"

namespace heddle {

Graph turn_weights(Graph graph, const Caps& caps);

}  // namespace heddle
