#include "heddle/train/recipes/finetune_objective.h"

#include <fmt/format.h>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/nn/linear_cross_entropy.h"
#include "heddle/nn/preference_losses.h"

namespace heddle::train {
namespace {

FinetuneObjective::Kind kind_of(const Text& name) {
  if (name == "sft") return FinetuneObjective::Kind::sft;
  if (name == "dpo") return FinetuneObjective::Kind::dpo;
  if (name == "orpo") return FinetuneObjective::Kind::orpo;
  throw ValueError(fmt::format("[finetune] --objective {} is none of sft, dpo, orpo", name));
}

}  // namespace

FinetuneObjective FinetuneObjective::of(const Config& c) {
  const FinetuneObjective o{kind_of(c.model_value<Text>("objective")), c.model_value<Number>("beta")};
  if (!o.is_of_pairs()) {
    if (o.beta != FinetuneObjective().beta)
      throw ValueError(fmt::format("[finetune] --beta {} is for --objective dpo and orpo", o.beta));
    return o;
  }
  if (!(o.beta > 0)) throw ValueError(fmt::format("[finetune] --beta is {}; it must be above 0", o.beta));
  if (c.model_value<Flag>("all_tokens"))
    throw ValueError("[finetune] --all-tokens is for --objective sft: pairs differ in their answers alone");
  const double smoothing = c.training.label_smoothing;
  if (o.kind == Kind::orpo && smoothing > 0)
    throw ValueError(fmt::format("[finetune] --label-smoothing {} is for --objective sft and dpo", smoothing));
  if (smoothing >= 0.5)
    throw ValueError(fmt::format("[finetune] --label-smoothing {}; of dpo it is below 0.5", smoothing));
  return o;
}

Tensor token_losses(nn::Llama& network, const std::vector<Tensor>& batch, bool dense, double smoothing,
                    Reduction reduction) {
  const Tensor& targets = batch.at(1);
  const Tensor features = network.features(batch.at(0), batch.size() > 2 ? batch[2] : Tensor());
  if (!dense) {
    return nn::linear_cross_entropy(
        features, network.head(), targets,
        {.reduction = reduction, .ignore_index = ignored_target, .label_smoothing = smoothing});
  }
  const Tensor logits = network.projected(features);
  CrossEntropyOptions options;
  options.reduction = reduction;
  options.ignore_index = ignored_target;
  options.label_smoothing = smoothing;
  const Tensor losses = cross_entropy(reshape(logits, {-1, logits.dim(2)}), flatten(targets), options);
  return reduction == Reduction::none ? reshape(losses, targets.shape()) : losses;
}

PreferenceLoss preference_loss(const FinetuneObjective& o, const Tensor& answers, const Tensor& reference,
                               double smoothing) {
  const auto column = [](const Tensor& pairs, int64_t i) {
    return squeeze(slice(pairs, 1, {.start = i, .stop = i + 1}), 1);
  };
  const Tensor chosen = column(answers, 0), rejected = column(answers, 1);
  PreferenceLoss made;
  if (o.kind == FinetuneObjective::Kind::dpo) {
    made.loss = nn::dpo_loss(chosen, rejected, column(reference, 0), column(reference, 1),
                             {.beta = o.beta, .label_smoothing = smoothing});
  } else {
    made.loss = nn::orpo_loss(chosen, rejected, {.lambda = o.beta});
  }
  const NoGradScope no_grad;
  const Tensor rewards = o.beta * (reference.defined() ? answers - reference : answers).detach();
  const Tensor margins = column(rewards, 0) - column(rewards, 1);
  made.margin = mean(margins);
  made.accuracy = mean(cast(margins > 0.0, DType::f32));
  return made;
}

}  // namespace heddle::train
