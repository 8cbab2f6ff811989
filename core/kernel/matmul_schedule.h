// pick_matmul: the default schedule of shaders/matmul.hk for a device and a problem.
//
// Purpose: one table of measured defaults by device class; the tuner starts from it. Invariants: the result is accepted
// by KernelFile::instantiate and gives right results for any sizes, also other than the ones it was picked for (as long
// as the unit strides and dtypes are the same). Thread safety: pure.
#pragma once

#include <cstdint>

#include "core/device/device.h"
#include "core/kernel/kernel_file.h"

namespace heddle {

// dst[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]
struct MatmulProblem {
  int64_t M = 1, N = 1, K = 1, batch = 1;
  // Which strides are 1 (of a dimension of length 1: whichever suits the caller, consistently).
  bool a_m1 = false, a_k1 = false, b_k1 = false, b_n1 = false;
  DType a = DType::f32, b = DType::f32;
  bool prologue_a = false, prologue_b = false;  // hooks given
};

// Values for KernelFile::Options::tunables, and for KernelFile::groups.
Bindings pick_matmul(const Caps& caps, const MatmulProblem& problem);

}  // namespace heddle
