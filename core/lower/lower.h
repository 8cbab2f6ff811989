// Lowering: groups -> kernels with their launch.
//
// Purpose: chooses the loop structure of each group for a class of device and prints it through the Emitter. Two
// machine models share every path: on GPUs (and drivers that map lanes to vector registers) a lane is a work item; on
// CPU drivers whose groups are loops, a group has one work item and lanes are the iterations of an inner loop the
// compiler vectorises. Invariants: one kernel per group; kernels of empty groups are left out. Thread safety: pure
// functions.
#pragma once

#include <vector>

#include "heddle/core/lower/lower_input.h"

namespace heddle {

LowerOptions lower_options(const Caps& caps, PassSet passes);

// Throws LimitError when a group exceeds what the device can launch or address.
std::vector<LoweredKernel> lower(const ScheduledGraph& scheduled, const Caps& caps, const LowerOptions& options);

}  // namespace heddle
