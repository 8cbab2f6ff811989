// What variables of the process force on a device's caps, for trying what another driver does. Thread safety: pure but
// for the process's variables.
#pragma once

#include "heddle/core/contract/device_info.h"

namespace heddle {

// HEDDLE_MAX_BINDING: a binding covers at most so many bytes (Caps::max_binding_bytes), if the device's cover more.
// HEDDLE_REGISTER_FLOATS: a core's vector registers hold so many floats, at most 512 (Caps::register_floats).
// ValueError where one is no number, or bytes are fewer than 4096, floats than 64.
Caps forced_caps(Caps caps);

}  // namespace heddle
