// LoopPlaces: where the storage slots of a loop's body lie in each iteration, relative to what the loop itself is bound
// to.
//
// Invariants: those of core/run/loop_planner.h, which makes them. Thread safety: plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/contract/device.h"

namespace heddle {

struct LoopPlaces {
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
  std::vector<Slot> slots;  // by storage slot of the body: arguments, then outputs
  std::vector<Fill> fills;
  int workspace = -1;  // the binding that holds the body's temporaries; -1: none
  // `outer`: the bindings of the loop's kernel.
  Binding locate(int slot, int64_t iteration, const std::vector<Binding>& outer) const;
};

}  // namespace heddle
