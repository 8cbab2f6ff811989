// The losses most programs use. More: losses.h.
//
// Inputs and targets have one shape unless said otherwise (losses do not broadcast by accident); integers are cast to
// f32. Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

enum class Reduction { mean, sum, none };

// logits (N, C) and integer targets (N): mean over N of -log_softmax(logits)[n, target[n]].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, Reduction reduction = Reduction::mean,
                     Caller caller = Caller::current());
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, Reduction reduction = Reduction::mean,
                Caller caller = Caller::current());
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                Caller caller = Caller::current());
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
               Caller caller = Caller::current());
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduction reduction = Reduction::mean,
                       Caller caller = Caller::current());
Tensor huber_loss(const Tensor& input, const Tensor& target, double delta = 1, Reduction reduction = Reduction::mean,
                  Caller caller = Caller::current());
// torch's kl_div with log input and plain target: target * (log target - input); mean divides by the number of
// elements.
Tensor kl_div(const Tensor& log_input, const Tensor& target, Reduction reduction = Reduction::mean,
              Caller caller = Caller::current());

}  // namespace heddle
