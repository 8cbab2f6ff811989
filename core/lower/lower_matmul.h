// Lowering of products: a kernel of shaders/matmul.hk with the group's prologues and epilogue.
// Thread safety: pure function.
#pragma once

#include "heddle/core/lower/lower_input.h"

namespace heddle {

LoweredKernel lower_matmul(const LowerInput& in);

}  // namespace heddle
