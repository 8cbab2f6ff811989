// The null device, leaves on it, and plans of what is pending there.
// Thread safety: pure but for the registry and the thread's pending operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/graph/tensor.h"
#include "tests/support/planned.h"

namespace heddle::test {

inline DeviceContext& null_device() { return device("null:0"); }

// Zeros: the device computes nothing, so no test sees values.
inline Tensor leaf(const Shape& shape, DType dtype = DType::f32) {
  const auto count = static_cast<size_t>(shape.numel());
  const std::vector<uint8_t> zeros(count * size_of(dtype));
  return Tensor::from_bytes(zeros.data(), count, dtype, shape, &null_device());
}

// The plan of what is pending.
inline Plan null_plan(bool fuse = true, bool loop_lanes = false) {
  const Caps& caps = null_device().caps();
  return planned_pending(loop_lanes ? with_loop_lanes(caps) : caps, fuse);
}

inline std::vector<LoweredKernel> lower_pending(bool loop_lanes = true) { return null_plan(true, loop_lanes).kernels; }

}  // namespace heddle::test
