// The headers of a CUDA toolkit (11.4 or newer), as backend_cuda uses them; its libraries are opened at run time.
#include <nvrtc.h>

#include "heddle/backend_cuda/driver.h"

using CubinSize = decltype(&nvrtcGetCUBINSize);

int main() { return CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == CU_DEVICE_ATTRIBUTE_WARP_SIZE; }
