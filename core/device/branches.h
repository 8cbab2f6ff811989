// Branches: the commands of a recording spread over several queues.
//
// Purpose: commands that touch no common bytes may run at the same time where a device has several queues (CUDA
// streams, OpenCL queues). Every backend with such queues needs the same answers: which command goes where, and which
// must wait for which. Invariants: two commands of which one writes what the other touches are on one queue, in order,
// or connected by waits; a wait is for the latest command of a queue that is needed, and only if no earlier wait
// implies it. Thread safety: pure function.
#pragma once

#include <span>
#include <vector>

#include "heddle/core/device/validate.h"

namespace heddle {

struct Branches {
  uint32_t queues = 1;                     // used; 1: nothing to be gained, all commands on queue 0
  std::vector<uint32_t> queue;             // by command
  std::vector<std::vector<size_t>> waits;  // by command: commands of other queues that come before
  std::vector<bool> awaited;               // by command: another queue waits for it
  std::vector<size_t> last;                // by queue: its last command + 1; 0: none
};

// A list scheduling: each command, in order, where it can start first, by Dispatch::seconds and a guess of what a wait
// costs.
Branches spread(std::span<const Command> commands, const HandleLookup& lookup, uint32_t queues);

}  // namespace heddle
