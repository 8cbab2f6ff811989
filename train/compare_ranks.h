// What ranks compare before they train together.
//
// Errors: ValueError, on all ranks, that names those with other options, code or data, and for a task whose batches
// ranks cannot share; of the data; those of distributed/errors.h. Thread safety: none.
#pragma once

#include "heddle/core/device/context.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"
#include "heddle/train/task.h"

namespace heddle::train {

// Device, folder and log are each rank's own. A world of one has nobody to compare with.
void compare_ranks(Replicas& replicas, const Config& config, const Task& task, const DeviceContext& device);

}  // namespace heddle::train
