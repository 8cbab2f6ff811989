// The device that a model is planned on when it is written as C99 (deploy/c_model.h): memory of the host and caps of a
// CPU that runs loops.
//
// Purpose: the planner asks a device for its caps and keeps tensors on it; what is written needs no driver, so neither
// does planning. Invariants: it takes kernels and runs none; submit() throws. Thread safety: as DeviceContext.
#pragma once

#include "heddle/core/device/context.h"

namespace heddle {

// One a process; its id is "c:0". It is in no registry.
DeviceContext& c_device();

}  // namespace heddle
