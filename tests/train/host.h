// The device of tests of training that compute little.
// Thread safety: pure but for the registry.
#pragma once

#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace heddle::train {

inline DeviceContext& host() { return device("reference:0"); }

}  // namespace heddle::train
