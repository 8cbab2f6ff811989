// Lowering of reductions and of what is computed over the same rows.
// Thread safety: pure function.
#pragma once

#include "heddle/core/lower/lower_input.h"

namespace heddle {

LoweredKernel lower_reduce(const LowerInput& in);

}  // namespace heddle
