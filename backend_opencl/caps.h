// The OpenCL devices of this machine and what they can do.
// Thread safety: pure functions over the driver's answers.
#pragma once

#include <string>
#include <vector>

#include "heddle/backend_opencl/loader.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/contract/quirks.h"

namespace heddle::opencl {

struct Found {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  int version = 120;    // device's OpenCL version, e.g. 300
  int c_version = 120;  // OpenCL C version it compiles
  DeviceInfo info;
  Quirks quirks;
};

// All devices of all platforms, in the loader's order. Empty, with the reason in *absent, where there is none.
// The drivers are asked once per process.
const std::vector<Found>& find_devices(std::string* absent);

}  // namespace heddle::opencl
