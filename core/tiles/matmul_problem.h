// MatmulProblem: what the choosers of tiles ask of a product: its sizes, its types, and how its operands lie.
//
// Thread safety: plain values, pure functions.
#pragma once

#include <cstdint>

#include "heddle/core/base/dtype.h"

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

}  // namespace heddle
