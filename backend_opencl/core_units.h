// What multiplies bf16 in a CPU's cores and is reached through a driver: units of tiles (x86's AMX), else instructions
// of vectors that multiply pairs (AVX512-BF16).
//
// Purpose: decides Caps::matrix_units of CPU devices. Invariants: the processor, the system and the driver's compiler
// are asked, never a name; the compiler's answer is kept on disk. HEDDLE_CORE_UNITS=0 turns both off; a line on stderr
// says so of other values than 0 and 1. Thread safety: any thread.
#pragma once

#include "heddle/backend_opencl/loader.h"
#include "heddle/core/dialect/print_options.h"

namespace heddle::opencl {

// `driver_hash`: Caps::driver_hash, of the compiler whose answer is kept.
CoreUnits reached_core_units(cl_platform_id platform, cl_device_id device, uint64_t driver_hash);

}  // namespace heddle::opencl
