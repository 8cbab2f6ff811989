// The device that a model is planned on when it is written as C99 (deploy/c_model.h): caps of a CPU that runs loops
// (deploy/planned_device.h). Thread safety: as DeviceContext.
#pragma once

#include "heddle/core/device/context.h"

namespace heddle {

// One a process; its id is "c:0".
DeviceContext& c_device();

}  // namespace heddle
