// How long work may take on a device: one submission where a watchdog ends long ones, and all of it before it counts as
// stuck. Thread safety: pure functions of the environment.
#pragma once

#include "heddle/core/contract/device_info.h"

namespace heddle {

// Desktop watchdogs end submissions of two to ten seconds; CPU drivers have none. HEDDLE_SLICE_MS overrides; 0: no
// slices.
double slice_seconds(DeviceClass device_class);

// How long a device may work without finishing anything before wait() gives it up (DeviceTimeout): HEDDLE_TIMEOUT in
// seconds; 0, the default: for ever.
double timeout_seconds();

}  // namespace heddle
