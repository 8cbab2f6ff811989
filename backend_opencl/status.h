// Names of OpenCL's error codes, and what an error means to the caller.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/backend_opencl/loader.h"

namespace heddle::opencl {

// "CL_OUT_OF_RESOURCES (-5)".
std::string status_text(cl_int status);
// True for codes after which the queue or device cannot be used any more.
bool means_lost(cl_int status);
// Throws DeviceError "[opencl] clFoo: CL_BAR (-1)" unless status is CL_SUCCESS; for calls outside a device.
void check(cl_int status, const char* call);

}  // namespace heddle::opencl
