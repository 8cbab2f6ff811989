// What variables of the process force on a device's caps, for trying what another driver does. Thread safety: pure but
// for the process's variables.
#pragma once

#include "heddle/core/contract/device_info.h"

namespace heddle {

// HEDDLE_MAX_BINDING: a binding covers at most so many bytes (Caps::max_binding_bytes), if the device's cover more.
// ValueError where it is no number of bytes from 4096 on.
Caps forced_caps(Caps caps);

}  // namespace heddle
