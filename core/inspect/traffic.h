// What a kernel of a planned graph does: which ops it computes, how many bytes it must move, how many operations it
// takes.
//
// Purpose: profiles put these beside measured times. Counted from the graph, not from the text: bytes are what is read
// and written at least once (each distinct element that a kernel reads, once, and each element that it stores), so a
// kernel that reads an operand several times through a cache is charged once. Operations: 2 M N K of a product, the
// direct sum of a convolution, the two products of attention, one per element of a reduction, and for an elementwise
// row the cost that the op table gives it (1 an addition, 4 a division, 10 and more a transcendental). Thread safety:
// pure functions of their input.
#pragma once

#include <span>
#include <vector>

#include "heddle/core/inspect/kernel_facts.h"
#include "heddle/core/lower/lower.h"

namespace heddle {

// Of every kernel, in order.
std::vector<KernelFacts> kernel_facts(const ScheduledGraph& scheduled, std::span<const LoweredKernel> kernels);

}  // namespace heddle
