// A backend that this build leaves out: `heddle devices` lists it with the reason instead of keeping silent about it.
// Thread safety: plain value.
#pragma once

#include <memory>
#include <string>

#include "heddle/core/device/registry.h"

namespace heddle {

// One unavailable device "<name>:0"; open() throws DeviceUnavailable with the reason.
std::unique_ptr<Backend> make_absent_backend(std::string name, std::string reason);

}  // namespace heddle
