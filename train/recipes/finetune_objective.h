// What `heddle finetune` minimises: the cross entropy of answers, that and the distance from a teacher, or a loss of
// pairs of which one is preferred.
//
// Errors: ValueError for options that cannot be meant. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/nn/distillation.h"
#include "heddle/train/config.h"
#include "heddle/train/recipes/next_tokens.h"

namespace heddle::train {

struct FinetuneObjective {
  enum class Kind : uint8_t { sft, distil, dpo, orpo };
  Kind kind = Kind::sft;
  double beta = 0;                            // 0 of sft, which has none
  nn::DistillationOptions distillation = {};  // of distil

  // Of model.objective, model.beta (0 stands for the objective's own), and what belongs to a teacher.
  static FinetuneObjective of(const Config& config);
  bool is_of_pairs() const { return kind == Kind::dpo || kind == Kind::orpo; }
};

// Means over what counts, rank 0: beta D + (1 - beta) H with the teacher's divergence D and the targets' cross entropy
// H.
struct DistilledLoss {
  Tensor loss, cross_entropy, divergence;
};
DistilledLoss distilled_loss(const FinetuneObjective& objective, const NextTokens& student, const NextTokens& teacher,
                             double smoothing);

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
