// Lowering of a loop: one kernel that reads its operands and writes its results (core/memory/planned_loop.h).
// Thread safety: pure function.
#pragma once

#include "heddle/core/lower/lower_input.h"

namespace heddle {

LoweredKernel lower_loop(const LowerInput& in);

}  // namespace heddle
