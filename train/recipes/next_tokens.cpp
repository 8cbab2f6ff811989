#include "heddle/train/recipes/next_tokens.h"

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/data/chat_template.h"
#include "heddle/nn/linear_cross_entropy.h"

namespace heddle::train {

using data::ignored_target;

NextTokens::NextTokens(nn::Llama& network, const std::vector<Tensor>& rows, bool dense)
    : targets_(rows.at(1)),
      features_(network.features(rows[0], rows.size() > 2 ? rows[2] : Tensor())),
      logits_(dense ? network.projected(features_) : Tensor()),
      head_(network.head()) {}

Tensor NextTokens::mean_over_counted(const Tensor& total) const {
  const Tensor count = sum(counted_targets(targets_));
  return total / cast(maximum(count, full({}, 1, count.dtype(), &count.device())), total.dtype());
}

Tensor NextTokens::cross_entropy(double smoothing, Reduction reduction) const {
  const Reduction how = reduction == Reduction::mean ? Reduction::sum : reduction;
  Tensor losses;
  if (logits_.defined()) {
    losses = heddle::cross_entropy(
        reshape(logits_, {-1, logits_.dim(2)}), flatten(targets_),
        CrossEntropyOptions{.reduction = how, .ignore_index = ignored_target, .label_smoothing = smoothing});
  } else {
    losses = nn::linear_cross_entropy(features_, head_, targets_,
                                      {.reduction = how, .ignore_index = ignored_target, .label_smoothing = smoothing});
  }
  if (reduction == Reduction::mean) return mean_over_counted(losses);
  return reduction == Reduction::none ? reshape(losses, targets_.shape()) : losses;
}

Tensor NextTokens::divergence(const NextTokens& teacher, const nn::DistillationOptions& options) const {
  const Tensor losses = logits_.defined() && teacher.logits_.defined()
                            ? nn::distillation_loss(logits_, teacher.logits_, options)
                            : nn::linear_distillation({features_, head_}, {teacher.features_, teacher.head_}, options);
  return mean_over_counted(sum(losses * cast(counted_targets(targets_), losses.dtype())));
}

Tensor token_losses(nn::Llama& network, const std::vector<Tensor>& rows, bool dense, double smoothing,
                    Reduction reduction) {
  return NextTokens(network, rows, dense).cross_entropy(smoothing, reduction);
}

Tensor counted_targets(const Tensor& targets) {
  return cast(targets != static_cast<double>(ignored_target), DType::f32);
}

}  // namespace heddle::train
