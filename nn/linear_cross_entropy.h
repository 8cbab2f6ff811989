// The last projection of a language model and its cross entropy in one, a stretch of the vocabulary at a time.
//
//   const Tensor loss = nn::linear_cross_entropy(model.features(tokens), model.head(), targets, {.ignore_index =
//   -100});
//
// Purpose: cross_entropy(x W^T, targets) without the logits, of which a step has rows times classes: 2,048 x 128,000 of
// them take a gigabyte, and their gradient another. Each stretch of classes is multiplied, goes into running maxima and
// sums of exponentials, and is forgotten; the gradient computes it again from the logarithms of these sums (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax"; Wijmans et al. 2024, "Cut your losses in
// large-vocabulary language models"). Invariants: no tensor of (rows, classes) is made, forward or backward; a packed
// weight is read as it lies, and a weight without requires_grad gets no gradient. Errors: ShapeError, DTypeError,
// ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <optional>

#include "heddle/core/functions/nn/loss.h"
#include "heddle/nn/projection.h"

namespace heddle::nn {

struct LinearCrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  std::optional<int64_t> ignore_index;  // targets of this number give no loss and are not counted
  double label_smoothing = 0;           // in [0, 1]: that share of the target is spread evenly over the classes
  int64_t stretch = 4096;               // classes at a time
};

// x (..., C), weight (V, C), class numbers targets (...), i32 or i64: the losses' mean, their sum, or (...). The mean
// where no target counts is NaN, as cross_entropy()'s and PyTorch's; who may meet that divides the sum by a number.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options = {}, Caller caller = Caller::current());
// With the weight of a projection, packed or not. Hooks of the projection, such as a Lora's, do not act.
Tensor linear_cross_entropy(const Tensor& x, const Projection& head, const Tensor& targets,
                            const LinearCrossEntropyOptions& options = {}, Caller caller = Caller::current());

struct LinearLogProbabilityOptions {
  std::optional<int64_t> ignore_index;  // targets of this number have 0
  int64_t stretch = 4096;               // classes at a time
};
// log softmax(x W^T)[target] of each target, (...), natural logarithm: the losses above, negated.
Tensor linear_log_probabilities(const Tensor& x, const Projection& head, const Tensor& targets,
                                const LinearLogProbabilityOptions& options = {}, Caller caller = Caller::current());

}  // namespace heddle::nn
