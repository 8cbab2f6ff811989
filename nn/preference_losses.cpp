#include "heddle/nn/preference_losses.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::nn {
namespace {

void check_like(const char* name, const Tensor& first, const Tensor& other) {
  if (other.shape() != first.shape())
    throw ShapeError(fmt::format("[{}] log-probabilities are {} and {}; expected one shape", name, first.shape().str(),
                                 other.shape().str()));
  for (const Tensor& each : {first, other}) {
    if (!is_float(each.dtype()))
      throw DTypeError(fmt::format("[{}] log-probabilities are {}; expected floats", name, name_of(each.dtype())));
  }
}

void check_weight(const char* name, const char* what, double value) {
  if (!(value > 0)) throw ValueError(fmt::format("[{}] {} is {}; it must be above 0", name, what, value));
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

// log(p / (1 - p)) of p = e^x.
Tensor log_odds(const Tensor& x) {
  constexpr double most = -1e-6;
  const Tensor below = minimum(x, full({}, most, x.dtype(), &x.device()));
  return below - log(-expm1(below));
}

}  // namespace

Tensor dpo_loss(const Tensor& chosen, const Tensor& rejected, const Tensor& reference_chosen,
                const Tensor& reference_rejected, const DpoOptions& o, Caller caller) {
  const CallerScope scope(caller);
  for (const Tensor& other : {rejected, reference_chosen, reference_rejected}) check_like("dpo_loss", chosen, other);
  check_weight("dpo_loss", "beta", o.beta);
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 0.5))
    throw ValueError(fmt::format("[dpo_loss] label_smoothing is {}; it must be in [0, 0.5)", o.label_smoothing));
  const Tensor margin = o.beta * ((chosen - reference_chosen) - (rejected - reference_rejected));
  const Tensor right = -logsigmoid(margin);
  if (o.label_smoothing == 0) return reduced(right, o.reduction);
  return reduced((1 - o.label_smoothing) * right - o.label_smoothing * logsigmoid(-margin), o.reduction);
}

Tensor orpo_loss(const Tensor& chosen, const Tensor& rejected, const OrpoOptions& o, Caller caller) {
  const CallerScope scope(caller);
  check_like("orpo_loss", chosen, rejected);
  check_weight("orpo_loss", "lambda", o.lambda);
  const Tensor ratio = log_odds(chosen) - log_odds(rejected);
  return reduced(-chosen - o.lambda * logsigmoid(ratio), o.reduction);
}

}  // namespace heddle::nn
