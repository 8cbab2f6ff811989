// Random programs over tensors: fuel for the scheduler, the planner and the devices.
//
// Invariants: the same seed gives the same program and the same data on every device. Values stay within a few units,
// so that f32 results may be compared. Thread safety: pure but for memory.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::test {

struct RandomProgram {
  std::vector<Tensor> parameters;  // leaves; some were assigned new values on the way
  std::vector<Tensor> held;        // results a user kept, pending
};

// Records about `ops` operations on `device`; nothing is evaluated.
RandomProgram random_program(DeviceContext& device, uint64_t seed, int ops);

}  // namespace heddle::test
