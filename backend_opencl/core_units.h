// Whether kernels reach the matrix units of a CPU's cores (x86's AMX) through a driver.
//
// Purpose: decides Caps::matrix_units of CPU devices. Invariants: the processor, the system and the driver's compiler
// are asked, never a name; the compiler's answer is kept on disk. HEDDLE_CORE_UNITS=0 turns the units off, which a line
// on stderr says of other values than 0 and 1. Thread safety: any thread.
#pragma once

#include "heddle/backend_opencl/loader.h"

namespace heddle::opencl {

// `driver_hash`: Caps::driver_hash, of the compiler whose answer is kept.
bool reaches_core_units(cl_platform_id platform, cl_device_id device, uint64_t driver_hash);

}  // namespace heddle::opencl
