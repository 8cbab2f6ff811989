// Winograd's convolution of 3 x 3 kernels: where it is taken, and its tunables (shaders/conv_winograd.hki,
// shaders/conv_weight_grad_winograd.hki).
//
// Purpose: rows of pick_conv and pick_conv_weight_grad that are long enough for a file of their own. Invariants: the
// bodies accept the values. Accuracy: errors relative to the largest value of a tile, about 3 times those of a direct
// sum; a NaN or infinity of a pixel spreads over the tile of 4 x 4. Thread safety: pure.
#pragma once

#include <optional>

#include "heddle/core/tiles/conv_operands.h"

namespace heddle {

// Tunables without facts; nullopt where the direct sum is estimated to be as fast, or the problem has another kernel, a
// stride or a dilation. Estimates are for OpenCL on a CPU.
std::optional<Bindings> pick_winograd(const Caps& caps, const ConvProblem& problem);

// Into how many partial sums a weight gradient is split where Winograd's schedule is taken; 0 where it is not.
int64_t pick_winograd_parts(const Caps& caps, const ConvProblem& problem);

}  // namespace heddle
