// Offload: values that wait in page-locked host memory between the forward and the backward pass.
//
// Purpose: checkpoint(CheckpointOptions{.offload = true}, ...) and offload(x) mark values (core/graph/checkpoint.h). A
// marked temporary is copied to the host after its last use before the longest stretch of launches that do not touch
// it, and back before the next use; both copies are commands of the recorded graph. Invariants: same bits; only
// temporaries that one kernel writes are moved, and only where at least `shortest` launches lie between the uses; each
// has bytes of its own in host memory. On devices with several queues (Caps::queues) the copy back starts some launches
// early, so that it runs beside them. Thread safety: pure function.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// Adds transfers to `kernels`; new vertices for what comes back to scheduled.graph. Gives the bytes of host memory they
// need.
uint64_t add_transfers(ScheduledGraph& scheduled, std::vector<LoweredKernel>& kernels, const Caps& caps);

}  // namespace heddle
