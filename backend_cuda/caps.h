// The CUDA devices of this machine and what they can do.
// Thread safety: pure functions over the driver's answers.
#pragma once

#include <string>
#include <vector>

#include "heddle/backend_cuda/driver.h"
#include "heddle/core/contract/device.h"

namespace heddle::cuda {

struct Found {
  CUdevice device = 0;
  int sm = 0;  // compute capability, 90 for 9.0
  DeviceInfo info;
};

// All devices, in the driver's order. Empty, with the reason in *absent, where there is none.
// The driver is asked once per process.
const std::vector<Found>& find_devices(std::string* absent);

}  // namespace heddle::cuda
