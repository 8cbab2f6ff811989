// The memory of a rank that takes a part of a training step's batches, as the memory planner has it.
//
// Purpose: `heddle plan --mesh dp=N`, whose step is two graphs (train/step.h): one gives the list of gradients that
// ranks add, the other updates. Both are planned on a blank device (core/device/blank_device.h), whose allocator counts
// the peak; gradients are the list, activations what is left. Invariants: nothing is computed. Errors: those of a
// training step's text and of nn/accumulate.h. Thread safety: none.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/core/device/context.h"
#include "heddle/distributed/forecast/mesh_forecast.h"

namespace heddle::tools {

struct RecordedBatch {
  int64_t examples = 1, parts = 1;
};
// `blank` plans as the device that is meant, and holds nothing.
distributed::MemoryForecast record_memory(const std::string& step, const RecordedBatch& batch, DeviceContext& blank);

}  // namespace heddle::tools
