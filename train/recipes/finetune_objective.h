// What `heddle finetune` minimises: the cross entropy of answers, or a loss of pairs of which one is preferred.
//
// Errors: ValueError for options that cannot be meant. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/functions/nn/loss.h"
#include "heddle/nn/models/llama.h"
#include "heddle/train/config.h"

namespace heddle::train {

inline constexpr int64_t ignored_target = -100;  // PyTorch's number for targets that give no loss

struct FinetuneObjective {
  enum class Kind : uint8_t { sft, dpo, orpo };
  Kind kind = Kind::sft;
  double beta = 0.1;

  // Of model.objective and model.beta.
  static FinetuneObjective of(const Config& config);
  bool is_of_pairs() const { return kind != Kind::sft; }
};

// Cross entropies of targets (B, T) behind tokens (B, T) with segments (B, T), or none: their mean over what counts, or
// each, (B, T). `dense`: the last projection is more than its weight, so its logits are made.
Tensor token_losses(nn::Llama& network, const std::vector<Tensor>& tokens_targets_segments, bool dense,
                    double smoothing, Reduction reduction);

// Means over pairs, rank 0. The margin is that of the answers' rewards, the accuracy the share of pairs where it is
// above 0; both without gradients.
struct PreferenceLoss {
  Tensor loss, margin, accuracy;
};
// Log-probabilities of answers, (B, 2): the chosen one's and the other's. DPO: sums over tokens, and the reference's;
// rewards are beta log(p / p_reference), of Rafailov et al. 2023, eq. 5. ORPO: means over tokens, without a reference
// (undefined); rewards are beta log p.
PreferenceLoss preference_loss(const FinetuneObjective& objective, const Tensor& answers, const Tensor& reference,
                               double smoothing);

}  // namespace heddle::train
