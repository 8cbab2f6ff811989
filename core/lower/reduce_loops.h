// Reductions whose lanes are iterations of vectorised loops (a CPU whose driver walks over work items one by one).
//
// Thread safety: pure functions over their argument.
#pragma once

#include "heddle/core/lower/reduce_rows.h"

namespace heddle {

// Lanes run over neighbouring rows.
LoweredKernel rows_in_loops(ReduceRows& g);
// Lanes run along the row.
LoweredKernel row_in_loops(ReduceRows& g);

}  // namespace heddle
