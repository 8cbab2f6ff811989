// pick_matmul: the default schedule of shaders/matmul.hk for a device and a problem.
//
// Purpose: one table of defaults by device class, measured but for GPUs; the tuner starts from it. Invariants: the
// result is accepted by KernelFile::instantiate and gives right results for any sizes, also other than the ones it was
// picked for (as long as the unit strides and dtypes are the same). Thread safety: pure.
#pragma once

#include <cstdint>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/tiles/matmul_problem.h"

namespace heddle {

// Values for KernelFile::Options::tunables, and for KernelFile::groups.
Bindings pick_matmul(const Caps& caps, const MatmulProblem& problem);

// Into how many partial products along k a product is cut before they are added up in a fixed order
// (core/specialise/specialize_matmul.cpp); 1: as it is. More than 1 where few results and a long k leave processors
// idle, or where a work item would loop longer than the driver allows. TuningKey "matmul_parts", tunable PARTS. At most
// K.
int64_t pick_matmul_parts(const Caps& caps, const MatmulProblem& problem);
// The fewest parts of a product over k with which no work item loops longer than the driver allows.
int64_t least_matmul_parts(const Caps& caps, int64_t k);

}  // namespace heddle
