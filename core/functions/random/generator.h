// Generators of random numbers: Philox4x32-10, the same bits on every device.
//
// Thread safety: none of its own; threads that draw from one generator must take turns.
#pragma once

#include <cstdint>

#include "heddle/core/graph/trace_hooks.h"

namespace heddle {

// manual_seed resets the generator of the process, which is used where none is given.
void manual_seed(uint64_t seed);
struct Generator {
  uint64_t seed = 0;
  uint64_t offset = 0;                           // advanced by each draw
  ~Generator() { trace::host_state_changed(); }  // compiled functions that drew from it look again
};
Generator& default_generator();

}  // namespace heddle
