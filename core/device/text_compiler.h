// The compiler of OpenCL's devices: it prints kernels; the rest is the driver's, which takes OpenCL C.
// Thread safety: any thread.
#pragma once

#include "heddle/core/contract/kernel_compiler.h"

namespace heddle {

const KernelCompiler& text_compiler();

}  // namespace heddle
