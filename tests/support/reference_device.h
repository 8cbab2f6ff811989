// The reference device by a short name.
// Thread safety: pure but for the registry.
#pragma once

#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace heddle::tests {

inline DeviceContext& reference() { return device("reference:0"); }

}  // namespace heddle::tests
