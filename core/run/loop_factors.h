// Factors of a loop's products that lie the wrong way round for a few rows.
//
// Purpose: on CPUs a product of few rows by a matrix that is read by columns turns the matrix while it multiplies, in
// every iteration (a recurrent layer's weights, `linear(h, weight)`). turn_factors() finds such matrices that the loop
// is given from outside; the planner of loops hands the body a turned copy, made once before the loop. Invariants: a
// matrix that anything else of the body reads, or one whose sizes vary, stays as it is; results differ by nothing, as
// the order of sums is that of the inner dimension either way. Thread safety: pure function.
#pragma once

#include <set>

#include "heddle/core/ir/ir.h"

namespace heddle {

// Slots of leaves of `body` from `first` on that are to lie column by column; their leaves say so afterwards.
std::set<int> turn_factors(Graph& body, int first);

}  // namespace heddle
