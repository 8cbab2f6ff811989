// Default tunables of products for devices that are CPUs.
//
// Purpose: rows of pick_matmul (matmul_tiles.h) of drivers that run one work item after the other (Machine::cpu_loops),
// as PoCL, and of those whose lanes fill a register, as lavapipe. Invariants: the body accepts the values where it does
// the problem. Thread safety: pure.
#pragma once

#include "heddle/core/contract/device_info.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/tiles/matmul_problem.h"

namespace heddle {

// Tunables without facts, of problems in f32 or what is widened to it; loops of a driver.
Bindings pick_matmul_on_cpu(const Caps& caps, const MatmulProblem& problem);
// Of two operands of bytes; loops of a driver.
Bindings pick_byte_matmul_on_cpu(const Caps& caps, const MatmulProblem& problem);
// Lanes that are those of a register.
Bindings pick_matmul_by_lanes_on_cpu(const Caps& caps, const MatmulProblem& problem);

}  // namespace heddle
