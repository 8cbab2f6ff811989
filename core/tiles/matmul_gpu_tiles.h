// Schedules of shaders/matmul.hk for GPUs: the defaults by device class, and the facts that its GPU schedules ask for.
//
// Purpose: the GPU half of core/tiles/matmul_tiles.h. None of these rows was measured on its device: they are what the
// hardware's documentation and the practice of its libraries suggest, and the tuner starts from them. Invariants: the
// result fits Caps::shared_bytes and Caps::max_group_lanes, and is accepted by KernelFile::instantiate. Thread safety:
// pure.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/tiles/matmul_problem.h"

namespace heddle {

// Operands that arithmetic in f32 covers, or i8 x i8 without prologues.
Bindings pick_matmul_gpu(const Caps& caps, const MatmulProblem& problem);

// Adds INT8, A_WIDE, B_WIDE, ELEMENT and UNIT_LANES: the tuner may then take any schedule that the file accepts.
void add_matmul_facts(const Caps& caps, const MatmulProblem& problem, Bindings& row);

}  // namespace heddle
