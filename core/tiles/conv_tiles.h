// pick_conv, pick_conv_weight_grad: default schedules of shaders/conv.hk and shaders/conv_weight_grad.hk for a device
// and a problem.
//
// Purpose: one table of measured defaults by device class; the tuner starts from it. Invariants: the result is accepted
// by KernelFile::instantiate, states the problem's facts, and gives right results for every problem with the same
// facts. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/core/tiles/conv_operands.h"

namespace heddle {

// Values for KernelFile::Options::tunables, and for KernelFile::groups.
Bindings pick_conv(const Caps& caps, const ConvProblem& problem);
Bindings pick_conv_weight_grad(const Caps& caps, const ConvProblem& problem);

// Into how many partial sums the reduction is split (1: none): over pixels of a weight gradient; over channels of the
// others, on NVIDIA's GPUs where their tiles are few. A fixed number per device and problem. TuningKey "conv_parts",
// tunable PARTS.
int64_t pick_conv_parts(const Caps& caps, const ConvProblem& problem);

// Iterations of all loops of the work item with the most.
int64_t conv_loop_iterations(const ConvProblem& problem, const Bindings& tunables);

// What a schedule does, for people: "winograd_8x32", "pointwise_8x32", "packed_14x32", "tiles_64x64", "registers_8x4",
// "dots_4x16", "rows", "lanes".
std::string conv_algorithm(const Bindings& tunables);

}  // namespace heddle
