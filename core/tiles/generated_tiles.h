// Schedules of generated elementwise and reduce kernels: the table of tunables by class of device.
//
// Purpose: what matmul_schedule is for a body, for the kernels that lower_elementwise prints; the tuner forces the same
// names through core/tiles/tuning.h (body "elementwise", variants "loop", "items" and their "tiled" forms). Invariants:
// every value gives the same results. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

struct ElementwiseProblem {
  bool loop_lanes = false;   // lanes are iterations of a loop, not work items
  int64_t elements = 0;      // of the domain
  int64_t inner = 0;         // of the innermost loop
  int64_t stored_bytes = 0;  // of the largest result that the kernel writes and does not read
  int64_t narrowest = 4;     // bytes of an element of the narrowest result
  // Some load is contiguous along another dimension than the results are: sizes of the innermost dimension and of that
  // other one.
  bool turned = false;
  int64_t across = 0;
};

// The tunables:
//   LANES     lanes of a group (items)
//   PER_LANE  elements of a lane (items)
//   AHEAD     1: a lane reads all its elements before it computes the first (items; up to 8 of them)
//   CHUNK     elements of a unit of work (loop)
//   STREAM    1: results go past the caches, in whole lines (loop)
//   PAIRS     1: short rows of which lanes read or write two neighbours are taken apart in registers (loop)
//   TILE      1: loads that run along another dimension are turned tile by tile
//   TILE_I    elements of a tile along the results: 32 or 64 (loop), 16 or 32 (items)
//   TILE_S    elements of a unit along the results (loop): a run of tiles
//   TILE_Q    elements of a unit along the loads (loop); a tile of work items is square
Bindings pick_elementwise(const Caps& caps, const ElementwiseProblem& problem);

struct RowsProblem {
  bool loop_lanes = false;
  int64_t rows = 0, length = 0;
  int64_t last = 0;       // size of the innermost reduced dimension
  int64_t registers = 1;  // of a lane's accumulators, in the pass that has most
  int64_t words = 1;      // registers that all that is read of an element takes
  bool joined = false;    // one text for rows of all lengths
  int64_t stored_bytes =
      0;  // of the largest result with an element for each of the rows' that the kernel writes and does not read
};

// Reduce groups whose lanes run along the rows (body "rows", variants "loop" and "items"). The tunables of loops:
//   WIDTH     accumulators of a reduction: 1, 16, 32 or 64
//   BLOCK     rows of a unit of work
//   PREFETCH  1: while a row is computed, the next one is on its way to the caches
//   STREAM    1: results go past the caches, in whole lines
// and of work items:
//   LANES     of a group, a power of two; short rows take fewer
//   PER_LANE  elements of a row that a lane reads at once, into registers; a whole row is read once for all passes
//   SUBGROUPS 1: lanes exchange values where the device lets them, 0: all meet in shared memory
Bindings pick_rows(const Caps& caps, const RowsProblem& problem);

}  // namespace heddle
