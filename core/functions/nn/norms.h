// Normalisations of rows, groups and batches.
//
// Purpose: (x - mean) / sqrt(variance + eps) * weight + bias over some axes, as PyTorch defines them: the variance
// divides by n. Each is composed of reductions and elementwise rows, which fuse into one kernel where the axes are the
// last ones. Weights and biases may be undefined (1 and 0). f16 and bf16 are computed in f32 and rounded once. Errors:
// ShapeError, DTypeError, ValueError, as core/functions/functions.h. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

// Over the last weight-rank axes; `shape` names them and is the shape of weight and bias.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Caller caller = Caller::current());
// x / sqrt(mean(x^2) + eps) * weight over the last axis; weight has its size.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6, Caller caller = Caller::current());
// x (N, C, ...): over each of `groups` groups of channels and all positions; weight and bias (C).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Caller caller = Caller::current());
// Over the positions of each channel: group_norm with as many groups as channels.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                     Caller caller = Caller::current());
// x (N, C, ...): over all of each channel. In training by the batch's statistics; running_mean and running_var (C),
// where given, become (1 - momentum) old + momentum new in place, with the variance that divides by n - 1. Otherwise by
// the running statistics.
Tensor batch_norm(const Tensor& x, Tensor running_mean, Tensor running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = true, double momentum = 0.1, double eps = 1e-5,
                  Caller caller = Caller::current());

}  // namespace heddle
