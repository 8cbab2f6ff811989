// AllocatorStats: what a device's allocator holds, in numbers. Thread safety: plain value.
#pragma once

#include <cstdint>

namespace heddle {

struct AllocatorStats {
  uint64_t live_bytes = 0;      // handed out now
  uint64_t peak_bytes = 0;      // most ever handed out at once (since reset_peak)
  uint64_t reserved_bytes = 0;  // held from the driver
  uint64_t allocations = 0;     // calls of allocate
  uint64_t blocks = 0;          // buffers held from the driver
};

}  // namespace heddle
