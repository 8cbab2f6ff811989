// Losses as objects: the functions of core/functions/nn with their options, one line each.
//
// Purpose: `const nn::CrossEntropyLoss loss({.label_smoothing = 0.1}); loss(logits, targets)`. They hold no parameters.
// Errors: those of the functions. Thread safety: as the functions'.
#pragma once

#include <utility>

#include "heddle/core/functions/functions.h"

namespace heddle::nn {

// Two arguments and a Reduction, or a struct of options.
#define HEDDLE_LOSS(Class, f, Options)                                                                      \
  class Class {                                                                                             \
   public:                                                                                                  \
    explicit Class(Options options = {}) : options_(std::move(options)) {}                                  \
    Tensor operator()(const Tensor& input, const Tensor& target, Caller caller = Caller::current()) const { \
      return f(input, target, options_, caller);                                                            \
    }                                                                                                       \
                                                                                                            \
   private:                                                                                                 \
    Options options_;                                                                                       \
  };
HEDDLE_LOSS(MSELoss, mse_loss, Reduction)
HEDDLE_LOSS(L1Loss, l1_loss, Reduction)
HEDDLE_LOSS(CrossEntropyLoss, cross_entropy, CrossEntropyOptions)
HEDDLE_LOSS(NLLLoss, nll_loss, NllOptions)
HEDDLE_LOSS(BCELoss, binary_cross_entropy, Reduction)
HEDDLE_LOSS(BCEWithLogitsLoss, bce_with_logits, BceOptions)
HEDDLE_LOSS(KLDivLoss, kl_div, Reduction)
HEDDLE_LOSS(SoftMarginLoss, soft_margin_loss, Reduction)
HEDDLE_LOSS(MultiLabelMarginLoss, multilabel_margin_loss, Reduction)
HEDDLE_LOSS(MultiLabelSoftMarginLoss, multilabel_soft_margin_loss, Reduction)
HEDDLE_LOSS(PoissonNLLLoss, poisson_nll_loss, PoissonOptions)
#undef HEDDLE_LOSS

// Two arguments and a number before the reduction.
#define HEDDLE_LOSS(Class, f, number, usual)                                                                \
  class Class {                                                                                             \
   public:                                                                                                  \
    explicit Class(double number = usual, Reduction reduction = Reduction::mean)                            \
        : number##_(number), reduction_(reduction) {}                                                       \
    Tensor operator()(const Tensor& input, const Tensor& target, Caller caller = Caller::current()) const { \
      return f(input, target, number##_, reduction_, caller);                                               \
    }                                                                                                       \
                                                                                                            \
   private:                                                                                                 \
    double number##_;                                                                                       \
    Reduction reduction_;                                                                                   \
  };
HEDDLE_LOSS(HuberLoss, huber_loss, delta, 1)
HEDDLE_LOSS(SmoothL1Loss, smooth_l1_loss, beta, 1)
HEDDLE_LOSS(HingeEmbeddingLoss, hinge_embedding_loss, margin, 1)
HEDDLE_LOSS(DiceLoss, dice_loss, smooth, 1)
#undef HEDDLE_LOSS

// Three arguments.
#define HEDDLE_LOSS(Class, f)                                                 \
  class Class {                                                               \
   public:                                                                    \
    explicit Class(double margin = 0, Reduction reduction = Reduction::mean)  \
        : margin_(margin), reduction_(reduction) {}                           \
    Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& target, \
                      Caller caller = Caller::current()) const {              \
      return f(a, b, target, margin_, reduction_, caller);                    \
    }                                                                         \
                                                                              \
   private:                                                                   \
    double margin_;                                                           \
    Reduction reduction_;                                                     \
  };
HEDDLE_LOSS(MarginRankingLoss, margin_ranking_loss)
HEDDLE_LOSS(CosineEmbeddingLoss, cosine_embedding_loss)
#undef HEDDLE_LOSS

class TripletMarginLoss {
 public:
  explicit TripletMarginLoss(TripletOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                    Caller caller = Caller::current()) const {
    return triplet_margin_loss(anchor, positive, negative, options_, caller);
  }

 private:
  TripletOptions options_;
};

class GaussianNLLLoss {
 public:
  explicit GaussianNLLLoss(GaussianOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& input, const Tensor& target, const Tensor& variance,
                    Caller caller = Caller::current()) const {
    return gaussian_nll_loss(input, target, variance, options_, caller);
  }

 private:
  GaussianOptions options_;
};

class CTCLoss {
 public:
  explicit CTCLoss(CtcOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths, Caller caller = Caller::current()) const {
    return ctc_loss(log_probabilities, targets, input_lengths, target_lengths, options_, caller);
  }

 private:
  CtcOptions options_;
};

}  // namespace heddle::nn
