// A launch: all blocks of a grid, on all cores.
//
// Purpose: what a driver does behind cuLaunchKernel. Thread safety: may be called from one thread at a time; the memory
// that `memory` names is read and written by several while it runs.
#pragma once

#include <cstddef>

#include "tests/ptx/block.h"
#include "tests/ptx/fault.h"
#include "tests/ptx/global_memory.h"
#include "tests/ptx/program.h"

namespace heddle::ptx {

// Throws Fault: that of the lowest block among those that ran.
void launch(const Program& program, const LaunchShape& shape, const std::byte* parameters, GlobalMemory& memory);

}  // namespace heddle::ptx
