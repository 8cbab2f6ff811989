// pick_matmul: the default schedule of shaders/matmul.hk for a device and a problem.
//
// Purpose: one table of measured defaults by device class; the tuner starts from it. Invariants: the result is accepted
// by KernelFile::instantiate and gives right results for any sizes, also other than the ones it was picked for (as long
// as the unit strides and dtypes are the same). Thread safety: pure.
#pragma once

#include <cstdint>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

// dst[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]
struct MatmulProblem {
  int64_t M = 1, N = 1, K = 1, batch = 1;
  // Which strides are 1 (of a dimension of length 1: whichever suits the caller, consistently).
  bool a_m1 = false, a_k1 = false, b_k1 = false, b_n1 = false;
  DType a = DType::f32, b = DType::f32;
  bool prologue_a = false, prologue_b = false;       // hooks given
  DType a_value = DType::f32, b_value = DType::f32;  // what is multiplied, after the prologues
  int64_t a_wide = 0, b_wide = 0;                    // matmul_wide() of the operands
  bool tf32 = false;                                 // f32 may be rounded to 11 bits for matrix units
};

// Strides of one operand: of the two batch dimensions, and of its first and second index.
struct MatmulStrides {
  int64_t offset = 0, batch1 = 0, batch2 = 0, first = 0, second = 0;
};
// The fact A_WIDE or B_WIDE for an operand of `rows` x `columns`: how many elements 16 bytes hold, if along the
// dimension of stride 1 (of two the one that the schedules walk along) every such run starts at a multiple of 16 bytes
// and ends inside; else 0.
int64_t matmul_wide(DType dtype, const MatmulStrides& strides, int64_t rows, int64_t columns);

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
