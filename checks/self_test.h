// The self-test of a device before it is first trained on.
//
// Purpose: a driver whose compiler is wrong about arithmetic is refused before hours are spent on it. Functions whose
// kernels rest on exact rounding and a small network, against the reference device: a second or two, once for each
// driver (Caps::driver_hash) and version of Heddle; that it passed is kept in the cache folder. HEDDLE_SELF_TEST=0
// leaves it out. Invariants: devices that take no kernels pass. Thread safety: any thread.
#pragma once

#include "heddle/core/device/context.h"

namespace heddle::checks {

// DeviceError that names the device, its driver, the first check that is wrong and what it gave.
void self_test(DeviceContext& device);

}  // namespace heddle::checks
