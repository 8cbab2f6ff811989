// Which tunables schedule 6 of shaders/conv.hk takes (shaders/conv_pointwise.hki): convolutions of kernels with one
// position as products of weights, as they lie, and panels of pixels.
//
// Purpose: part of the pickers of conv_tiles.h. Invariants: panels hold all channels of src; where panels are few,
// their channels of dst are shared out, so that every core has work. Thread safety: pure functions.
#pragma once

#include "heddle/core/tiles/conv_operands.h"

namespace heddle {

// For CPUs that run a group as loops. The body may refuse them (too many channels): a caller looks.
Bindings pick_pointwise(const Caps& caps, const ConvProblem& problem);

}  // namespace heddle
