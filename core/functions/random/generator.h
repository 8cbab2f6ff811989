// Generators of random numbers: Philox4x32-10, the same bits on every device.
//
// Thread safety: none of its own; threads that draw from one generator, or reset it, must take turns.
#pragma once

#include <cstdint>

#include "heddle/core/graph/trace_hooks.h"

namespace heddle {

struct Generator {
  uint64_t seed = 0;
  uint64_t offset = 0;                           // advanced by each draw
  ~Generator() { trace::host_state_changed(); }  // compiled functions that drew from it look again
};
// The generator that is used where none is given: that of the thread's innermost scope (generator_scope.h), outside of
// any that of the process.
Generator& default_generator();
// Resets that one.
void manual_seed(uint64_t seed);

}  // namespace heddle
