// ScheduleLimits: how far the scheduler may go, by the device and by the passes that are on. Thread safety: plain
// values.
#pragma once

#include <cstdint>

#include "heddle/core/simplify/passes.h"

namespace heddle {

struct ScheduleLimits {
  uint32_t max_bindings = 8;
  PassSet passes = PassSet::all();  // fuse (without it one kernel a vertex: eager mode and tests), siblings, cheap
  // A driver ends long loops: loops of a user's text stay out of loops over rows and products.
  bool counted_loops = false;
  uint32_t max_loop_ops = UINT32_MAX;  // Caps::max_loop_ops
  uint64_t max_binding_bytes = UINT64_MAX;
};

}  // namespace heddle
