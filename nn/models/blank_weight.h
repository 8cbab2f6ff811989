// Weights on a blank device (core/device/blank_device.h): memory and no values.
// Internal to nn/models. Errors: those of the device's allocator. Thread safety: as DeviceContext.
#pragma once

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

// A leaf, so that it counts as what was there before a step.
Tensor blank_weight(const Shape& shape, DType dtype, DeviceContext& device);

}  // namespace heddle::nn
