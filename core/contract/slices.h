// How long one submission may take on a device whose watchdog ends long ones.
// Thread safety: pure function.
#pragma once

#include "heddle/core/contract/device.h"

namespace heddle {

// Desktop watchdogs end submissions of two to ten seconds; CPU drivers have none. HEDDLE_SLICE_MS overrides; 0: no
// slices.
double slice_seconds(DeviceClass device_class);

}  // namespace heddle
