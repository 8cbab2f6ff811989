// Reduce groups: rows of `domain`, each reduced over `inner`, possibly several times (softmax: max, then sum), with
// elementwise work before, between and after. Reductions are done in phases: one pass over the row computes every
// reduction whose inputs are known.
//
// Four loop structures from two choices: along which axis lanes run (the row itself, or neighbouring rows), and what a
// lane is (a work item, or an iteration of a vectorised loop).
#include "heddle/core/lower/lower_reduce.h"

#include "heddle/core/lower/reduce_items.h"
#include "heddle/core/lower/reduce_loops.h"

namespace heddle {

LoweredKernel lower_reduce(const LowerInput& in) {
  ReduceRows g(in);
  if (in.options.loop_lanes) return g.lanes_on_rows() ? rows_in_loops(g) : row_in_loops(g);
  return g.lanes_on_rows() ? rows_as_items(g) : row_over_items(g);
}

}  // namespace heddle
