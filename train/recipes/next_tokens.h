// What a language model says of the next tokens, and the losses of that: of targets, and of a teacher's distribution.
//
// Invariants: no logits are made, but where the last projection is more than its weight (`dense`): an adapter stands
// beside it, or its logits are capped. Errors: those of the network. Thread safety: recording is per thread.
#pragma once

#include <vector>

#include "heddle/core/functions/nn/loss.h"
#include "heddle/nn/distillation.h"
#include "heddle/nn/models/llama.h"

namespace heddle::train {

class NextTokens {
 public:
  // Behind rows: tokens (B, T), targets (B, T), and segments (B, T) or none.
  NextTokens(nn::Llama& network, const std::vector<Tensor>& rows, bool dense);
  // Cross entropies of the rows' targets: each (B, T), their sum, or their mean over what counts, which is 0 (and has
  // gradients of 0) where nothing does: a batch of questions alone does not end a run.
  Tensor cross_entropy(double smoothing, Reduction reduction) const;
  // The mean, over what counts, of nn/distillation.h's losses by a teacher that read the same rows in the same way.
  Tensor divergence(const NextTokens& teacher, const nn::DistillationOptions& options) const;

 private:
  Tensor mean_over_counted(const Tensor& sum) const;

  Tensor targets_, features_, logits_;  // without `dense` there are no logits
  nn::Projection head_;
};

// Cross entropies of rows as above.
Tensor token_losses(nn::Llama& network, const std::vector<Tensor>& rows, bool dense, double smoothing,
                    Reduction reduction);

// 1 where a target counts, else 0: f32.
Tensor counted_targets(const Tensor& targets);

}  // namespace heddle::train
