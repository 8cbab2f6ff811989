// Tiles of products of bf16 by the matrix units of a CPU's cores (shaders/matmul_core_units.hki).
//
// Units of tiles are some twenty times as fast as a core's vectors, products of pairs twice: copies of the operands
// count more or less, and blocks are chosen for which the fullest core has the least to do. Thread safety: pure
// functions.
#pragma once

#include "heddle/core/contract/device_info.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/tiles/matmul_problem.h"

namespace heddle {

// Whether the device has such units and the problem is of bf16; smaller ones leave most of a tile empty.
bool takes_core_units(const Caps& caps, const MatmulProblem& problem);

// SCHEDULE, MB, NB and KC of shaders/matmul.hk.
Bindings pick_core_units(const Caps& caps, const MatmulProblem& problem);

}  // namespace heddle
