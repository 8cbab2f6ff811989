// Complex numbers as pairs.
//
// Purpose: a complex tensor is a floating one whose last axis, of size 2, holds the real and the imaginary part (as
// torch.view_as_real). Errors: ShapeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor complex_pair(TensorArg real, const Tensor& imaginary);  // broadcast, with a new last axis of 2
Tensor real_part(TensorArg z);
Tensor imaginary_part(TensorArg z);
Tensor complex_conj(TensorArg z);
Tensor complex_mul(TensorArg a, const Tensor& b);  // shapes broadcast
Tensor complex_abs(TensorArg z);                   // without overflow; its gradient at 0 is 0
Tensor complex_angle(TensorArg z);                 // atan2(imaginary, real)
Tensor polar(TensorArg size, const Tensor& angle);

namespace build {

// For the function named `op`: ShapeError unless z ends in a pair, with at least so many axes before it.
void check_pairs(const char* op, const Tensor& z, int least = 1);
// i z.
Tensor times_i(const Tensor& z);

}  // namespace build
}  // namespace heddle
