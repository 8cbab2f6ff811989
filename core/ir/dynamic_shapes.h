// DynamicShapes: whether kernels may depend on the sizes they are planned for.
//
// Purpose: a loop over texts of different lengths should stop compiling kernels soon, a loop over batches of one size
// should have the fastest ones. How: core/ir/dynamic_sizes.h. Thread safety: the mode belongs to the process and may be
// set from any thread; plans made under another mode are not used.
#pragma once

#include <cstdint>

namespace heddle {

enum class DynamicShapes : uint8_t {
  automatic,  // the first two sets of sizes of a structure get kernels of their own, the third and all later ones share
              // theirs
  never,      // each set of sizes gets its own (benchmarks and the tuner)
  always,     // nothing is relied on (tests; lengths that never repeat)
};

// HEDDLE_DYNAMIC_SHAPES=never or always at start, else automatic.
DynamicShapes dynamic_shapes();
void set_dynamic_shapes(DynamicShapes mode);

}  // namespace heddle
