// GPUs of NVIDIA's architectures that are not here: what the backend would read of one, and a device to plan on.
//
// Purpose: `heddle compile --targets cuda:sm_80` on a machine without that GPU: the caps come from a table, NVRTC makes
// the machine code. Invariants: every fact that an image relies on (ImageNeeds) is of the architecture, so that each
// GPU of it takes the image; what differs between its cards (units, memory) is one card's, and only chooses among
// schedules. Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; data sheets.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/contract/device_info.h"
#include "heddle/core/device/context.h"

namespace heddle {

struct CudaArchitecture {
  uint32_t sm = 0;        // 80: compute capability 8.0
  const char* card = "";  // whose units and memory these are
  uint32_t units = 0;     // multiprocessors
  uint32_t shared = 0;    // bytes that a block may opt in to
  uint64_t memory_gib = 0;
  bool integrated = false;
};

std::span<const CudaArchitecture> cuda_architectures();
// As backend_cuda/caps.cpp reads them of such a GPU, but for its driver.
Caps cuda_caps(const CudaArchitecture& architecture);
// Those that the NVRTC of this machine makes code for and the table has facts of (for another one of a generation, what
// all of that generation have). Empty without NVRTC.
std::vector<CudaArchitecture> compiled_cuda_architectures();

// The device to plan on for "cuda:sm_80", one a process. ValueError for a name that is none of
// compiled_cuda_architectures(), DeviceUnavailable without NVRTC.
DeviceContext& cuda_target(const std::string& name);

}  // namespace heddle
