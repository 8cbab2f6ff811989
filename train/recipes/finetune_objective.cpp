#include "heddle/train/recipes/finetune_objective.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/preference_losses.h"

namespace heddle::train {
namespace {

using Kind = FinetuneObjective::Kind;

Kind kind_of(const Text& name) {
  if (name == "sft") return Kind::sft;
  if (name == "distil") return Kind::distil;
  if (name == "dpo") return Kind::dpo;
  if (name == "orpo") return Kind::orpo;
  throw ValueError(fmt::format("[finetune] --objective {} is none of sft, distil, dpo, orpo", name));
}

nn::Divergence divergence_of(const Text& name) {
  if (name == "forward") return nn::Divergence::forward;
  if (name == "reverse") return nn::Divergence::reverse;
  if (name == "jensen-shannon") return nn::Divergence::jensen_shannon;
  throw ValueError(fmt::format("[finetune] --divergence {} is none of forward, reverse, jensen-shannon", name));
}

double beta_of(Kind kind, const Config& c) {
  const double beta = c.model_value<Number>("beta");
  const bool is_given = beta != 0 || c.given().contains("model.beta");
  if (kind == Kind::sft && is_given)
    throw ValueError(fmt::format("[finetune] --beta {} is for --objective distil, dpo and orpo", beta));
  if (kind == Kind::sft) return 0;
  if (!is_given) return kind == Kind::distil ? 0.5 : 0.1;
  if (!(beta > 0)) throw ValueError(fmt::format("[finetune] --beta is {}; it must be above 0", beta));
  if (kind == Kind::distil && beta > 1)
    throw ValueError(fmt::format("[finetune] --beta is {}; of distil it is a share, at most 1", beta));
  return beta;
}

// Without a teacher, what belongs to one is refused.
nn::DistillationOptions distillation_of(Kind kind, double beta, const Config& c) {
  const Text &teacher = c.model_value<Text>("teacher"), &divergence = c.model_value<Text>("divergence");
  const double temperature = c.model_value<Number>("temperature");
  if (kind != Kind::distil) {
    const auto refuse = [](const char* flag, const std::string& value) {
      throw ValueError(fmt::format("[finetune] {} {} is for --objective distil", flag, value));
    };
    if (!teacher.empty()) refuse("--teacher", teacher);
    if (temperature != 1) refuse("--temperature", fmt::format("{}", temperature));
    if (divergence != "forward") refuse("--divergence", divergence);
    return {};
  }
  if (teacher.empty()) throw ValueError("[finetune] --objective distil learns from --teacher MODEL, which is missing");
  if (!(temperature > 0) || std::isinf(temperature))
    throw ValueError(fmt::format("[finetune] --temperature is {}; it must be above 0", temperature));
  if (beta == 1 && c.training.label_smoothing > 0)
    throw ValueError("[finetune] --label-smoothing is of the targets, which count nothing with --beta 1");
  return {.divergence = divergence_of(divergence), .temperature = temperature};
}

void check_pairs(Kind kind, const Config& c) {
  if (c.model_value<Flag>("all_tokens"))
    throw ValueError("[finetune] --all-tokens is for --objective sft and distil: pairs differ in their answers alone");
  const double smoothing = c.training.label_smoothing;
  if (kind == Kind::orpo && smoothing > 0)
    throw ValueError(fmt::format("[finetune] --label-smoothing {} is for --objective sft, distil and dpo", smoothing));
  if (smoothing >= 0.5)
    throw ValueError(fmt::format("[finetune] --label-smoothing {}; of dpo it is below 0.5", smoothing));
}

}  // namespace

FinetuneObjective FinetuneObjective::of(const Config& c) {
  FinetuneObjective o{.kind = kind_of(c.model_value<Text>("objective"))};
  o.beta = beta_of(o.kind, c);
  o.distillation = distillation_of(o.kind, o.beta, c);
  if (o.is_of_pairs()) check_pairs(o.kind, c);
  return o;
}

DistilledLoss distilled_loss(const FinetuneObjective& o, const NextTokens& student, const NextTokens& teacher,
                             double smoothing) {
  DistilledLoss made{.cross_entropy = student.cross_entropy(smoothing, Reduction::mean),
                     .divergence = student.divergence(teacher, o.distillation)};
  made.loss = o.beta == 1 ? made.divergence : o.beta * made.divergence + (1 - o.beta) * made.cross_entropy;
  return made;
}

PreferenceLoss preference_loss(const FinetuneObjective& o, const Tensor& answers, const Tensor& reference,
                               double smoothing) {
  const auto column = [](const Tensor& pairs, int64_t i) {
    return squeeze(slice(pairs, 1, {.start = i, .stop = i + 1}), 1);
  };
  const Tensor chosen = column(answers, 0), rejected = column(answers, 1);
  PreferenceLoss made;
  if (o.kind == Kind::dpo) {
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
