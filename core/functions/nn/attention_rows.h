// What the packed results of attention's rows hold (attention_problem.h), as tensors. Internal to core, autograd and
// nn.
//
// Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// 1 / sqrt(D) unless given; q (B, H, T, D).
double attention_scale(const std::optional<double>& given, const Tensor& q);

// Of a value of the attention row's shape (the row itself, or its cotangent): (B, T, H, E), and the logarithms, flat.
Tensor attention_result(const Tensor& packed, const AttentionProblem& problem);
Tensor attention_logarithms(const Tensor& packed, const AttentionProblem& problem);
// The shape of attention_key_gradient's row, and what it holds: (B, J, N, D) of the keys, (B, J, N, E) of the values.
Shape attention_key_gradient_shape(const AttentionProblem& problem);
Tensor attention_gradient_of_keys(const Tensor& packed, const AttentionProblem& problem);
Tensor attention_gradient_of_values(const Tensor& packed, const AttentionProblem& problem);

}  // namespace heddle
