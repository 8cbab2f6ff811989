// A device that is planned for and is not here: caps that somebody gives, and memory of the host.
//
// Purpose: the planner asks a device for its caps and keeps tensors on it; what is written for C99 or for a GPU of
// another machine needs neither driver nor GPU, and so does planning. Invariants: it takes the kernels that its caps
// allow and runs none: who looks at a value of it gets a ValueError. It is in no registry. Thread safety: as
// DeviceContext.
#pragma once

#include "heddle/core/device/context.h"

namespace heddle {

// A new one, which stays until the process ends, as those of the registry do: tensors may. `info.id` is what messages
// call it; info.caps what it has.
DeviceContext& planned_device(DeviceInfo info);
// Whether it is one of these, on which nothing can run.
bool only_plans(DeviceContext& device);

}  // namespace heddle
