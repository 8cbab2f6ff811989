// Gradient norms and clipping, in few launches.
//
// Purpose: the norm over many tensors is one launch of partial sums and one that joins them; clipping multiplies
// lazily, so the scale is applied inside whatever reads the gradients next (an optimizer's update) and costs no pass of
// its own. Invariants: sums are f32 (f64 for f64 tensors), in a fixed order: two runs agree bit for bit. Squares
// beyond 3.4e38 make the norm infinite. Not-a-number and infinity: clip_grad_norm() does as PyTorch does, the scale is
// max_norm / (norm + 1e-6): an infinite norm makes finite gradients 0 and infinite ones NaN, a NaN norm makes all
// gradients NaN; `error_if_nonfinite` asks the device first and throws ValueError instead. Optimizer::set_clip_norm()
// leaves parameters and state as they are in such a step. Errors: ValueError for a negative or NaN limit, an order
// other than 1, 2 or infinity, gradients on several devices. Thread safety: none.
#pragma once

#include <span>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

// The norm of order 1, 2 or infinity of all elements of all tensors together, rank 0; 0 (on the default device) without
// any tensor.
Tensor global_norm(std::span<const Tensor> tensors, double order = 2, Caller caller = Caller::current());

// Scales the gradients of `parameters` so that their norm is at most max_norm; returns the norm before. Parameters
// without a gradient are left out.
Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm, double order = 2,
                      bool error_if_nonfinite = false, Caller caller = Caller::current());

// Clamps every element of every gradient to [-limit, limit]. NaN stays NaN.
void clip_grad_value(std::span<const Tensor> parameters, double limit, Caller caller = Caller::current());

}  // namespace heddle::nn
