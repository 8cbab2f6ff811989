// Losses that learn from pairs of answers, of which the first is preferred: DPO and ORPO.
//
//   const Tensor tokens = nn::linear_log_probabilities(model.features(x), model.head(), y, {.ignore_index = -100});
//   const Tensor answers = sum(tokens, {1});                                                       // (2 B)
//   const Tensor loss = nn::dpo_loss(chosen, rejected, reference_chosen, reference_rejected, {.beta = 0.1});
//
// Purpose: functions of log-probabilities of whole answers, (B) each: logarithms of products over the answer's tokens
// for DPO, of their geometric means for ORPO. Invariants: natural logarithms; arguments have one shape and are
// floating; gradients come from the parts', so reference log-probabilities without requires_grad get none. Errors:
// ShapeError for shapes that differ, DTypeError for integers, ValueError for options. Thread safety: recording is per
// thread.
#pragma once

#include "heddle/core/functions/nn/loss.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

struct DpoOptions {
  double beta = 0.1;           // above 0: how much leaving the reference costs
  double label_smoothing = 0;  // in [0, 0.5): chance that a pair lies the wrong way round
  Reduction reduction = Reduction::mean;
};
// -(1 - s) log sigmoid(m) - s log sigmoid(-m) with m = beta ((chosen - reference_chosen) - (rejected -
// reference_rejected)). Rafailov et al. 2023, "Direct preference optimization", eq. 7; the smoothing s is that of
// Mitchell 2023, "A note on DPO with noisy preferences" (cDPO), eq. 3.
Tensor dpo_loss(const Tensor& chosen, const Tensor& rejected, const Tensor& reference_chosen,
                const Tensor& reference_rejected, const DpoOptions& options = {}, Caller caller = Caller::current());

struct OrpoOptions {
  double lambda = 0.1;  // above 0: weight of the odds' ratio
  Reduction reduction = Reduction::mean;
};
// -chosen - lambda log sigmoid(log(odds(chosen) / odds(rejected))), odds(p) = p / (1 - p); arguments are means of the
// tokens' log-probabilities. Hong et al. 2024, "ORPO: monolithic preference optimization without reference model", eq.
// 4 to 7. Means above -1e-6, whose odds f32 cannot hold, count in them as -1e-6.
Tensor orpo_loss(const Tensor& chosen, const Tensor& rejected, const OrpoOptions& options = {},
                 Caller caller = Caller::current());

}  // namespace heddle::nn
