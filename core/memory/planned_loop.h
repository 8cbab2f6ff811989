// PlannedLoop: a loop with a plan for its body, and where the body's slots lie in each iteration.
// core/run/loop_planner.h makes it.
//
// Invariants: the kernels and the memory for temporaries do not depend on the length.
// Thread safety: plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/contract/device.h"
#include "core/memory/plan.h"

namespace heddle {

struct PlannedLoop {
  // Where a storage slot of the body lies. `binding` is an index into the bindings of the loop's kernel.
  struct Slot {
    enum class Kind : uint8_t {
      unused,
      whole,    // all of `binding`
      row,      // of `binding`: that of the slice
      carried,  // before the first iteration `binding`, then where slot `source` lay in the iteration before
      in_turn   // of the workspace: `place` or `place` + bytes; in the last iteration `binding`, if there is one
    };
    Kind kind = Kind::unused;
    int binding = -1;
    int source = -1;
    int row_shift = 0;   // rows further than the slice's number
    uint64_t bytes = 0;  // of a row, or of one of the two buffers
    uint64_t place = 0;
  };
  // Before the first iteration: a carry's initial value into a row.
  struct Fill {
    int from = -1, to = -1;
    uint64_t offset = 0, bytes = 0;
  };

  int64_t length = 0;
  bool reverse = false;
  Plan body;
  std::vector<Slot> slots;  // by storage slot of the body: arguments, then outputs
  std::vector<Fill> fills;
  std::vector<uint64_t> block_places;  // of the blocks of the body's arena in the workspace
  uint64_t workspace_bytes = 0;
  int workspace = -1;  // its binding; -1: none
  std::vector<Binding> bind(const std::vector<SlotRef>& refs, int64_t iteration, const std::vector<Binding>& outer,
                            const Binding& host) const;
  Binding locate(int slot, int64_t iteration, const std::vector<Binding>& outer) const;

  // For the loop's own kernel.
  size_t operands = 0;
  size_t launches() const;  // of one run of the loop
};

// Launches of a kernel: 1, or those of a loop.
size_t launches_of(const LoweredKernel& kernel);

}  // namespace heddle
