// DeviceCounters: what a DeviceContext counts. Thread safety: plain values.
#pragma once

#include <cstdint>

namespace heddle {

// What happened on a device since it was opened.
struct DeviceCounters {
  uint64_t kernels = 0;  // dispatches submitted
  uint64_t submissions = 0;
  uint64_t kernels_compiled = 0;
  uint64_t steps_compiled = 0;  // plans made
  uint64_t step_hits = 0;       // plans found again
  uint64_t recordings = 0;
  uint64_t region_breaks = 0;     // evaluations because a value was looked at (or too much was pending)
  uint64_t compiled_replays = 0;  // calls of compiled functions that recorded nothing
  uint64_t host_evaluations =
      0;  // operations that core computed on the host: all on the reference device, none on one with kernels
  uint64_t bytes_read = 0;  // from the device to the host
};

}  // namespace heddle
