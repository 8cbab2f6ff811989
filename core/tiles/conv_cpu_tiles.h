// Default tunables of convolutions for CPUs whose drivers run one work item after the other (Machine::cpu_loops).
//
// Purpose: rows of pick_conv and pick_conv_weight_grad that are long enough for a file of their own: packed pixels,
// kernels of one position, few channels of dst. Invariants: the bodies accept the values. Thread safety: pure.
#pragma once

#include "heddle/core/tiles/conv_operands.h"

namespace heddle {

// Of fewer channels vectors along them are mostly empty.
inline constexpr int64_t few_channels = 4;

// Tunables without facts, of problems in f32.
Bindings pick_conv_on_cpu(const Caps& caps, const ConvProblem& problem);
Bindings pick_conv_weight_grad_on_cpu(const Caps& caps, const ConvProblem& problem);

}  // namespace heddle
