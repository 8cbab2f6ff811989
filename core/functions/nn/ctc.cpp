// Connectionist temporal classification, and losses with weights.
#include <fmt/format.h>

#include <limits>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/pick.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {
namespace {

constexpr double never = -1e30;  // log of 0 that has no NaN beside it

Tensor reduced_losses(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::mean ? mean(losses) : reduction == Reduction::sum ? sum(losses) : losses;
}

void check_ctc(const Tensor& x, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
               int64_t blank) {
  for (const Tensor& t : {targets, input_lengths, target_lengths}) {
    build::check_device(x, t, "ctc_loss");
    build::check_index_dtype(t, "ctc_loss");
  }
  const bool fits = x.rank() == 3 && targets.rank() == 2 && x.dim(0) >= 1 && x.dim(2) >= 1 &&
                    targets.dim(0) == x.dim(1) && input_lengths.shape() == Shape{x.dim(1)} &&
                    target_lengths.shape() == input_lengths.shape();
  if (!fits) {
    throw ShapeError(fmt::format(
        "[ctc_loss] log probabilities are {}, targets {}, lengths {} and {}; expected (T, N, C), (N, S), (N) and (N)",
        x.shape().str(), targets.shape().str(), input_lengths.shape().str(), target_lengths.shape().str()));
  }
  if (blank < 0 || blank >= x.dim(2))
    throw ValueError(fmt::format("[ctc_loss] blank is {}; it must be one of the {} classes", blank, x.dim(2)));
}

// (N, n) moved by k states; what comes in is impossible.
Tensor later(const Tensor& alpha, int64_t k) {
  if (alpha.dim(1) <= k) return full_like(alpha, never);
  return pad(slice(alpha, 1, {.start = 0, .stop = alpha.dim(1) - k}), {{0, 0}, {k, 0}}, never);
}

// log(e^a + e^b + e^c)
Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Tensor most = stop_gradient(maximum(maximum(a, b), c));
  return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

// -log of the probability of each target (N), in the dtype of x. Lengths are i32 and within their axes.
Tensor ctc_losses(const Tensor& x, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                  const CtcOptions& how) {
  const int64_t steps = x.dim(0), batch = x.dim(1), length = targets.dim(1), states = 2 * length + 1;
  const auto blanks = [&](const Shape& shape) {
    return full(shape, static_cast<double>(how.blank), DType::i32, &x.device());
  };
  // States: blank, label, blank, label, ..., blank.
  const Tensor pairs =
      reshape(stack({blanks(targets.shape()), build::narrowed(targets, x.dim(2))}, -1), Shape{batch, 2 * length});
  const Tensor labels = length == 0 ? blanks(Shape{batch, 1}) : concat({pairs, blanks(Shape{batch, 1})}, 1);
  const Tensor emitted = gather(x, 2, expand(reshape(labels, Shape{1, batch, states}), Shape{steps, batch, states}));
  const Tensor state = build::positions(labels.shape(), 1, x.device());
  const Tensor before = states > 2 ? pad(slice(labels, 1, {.start = 0, .stop = states - 2}), {{0, 0}, {2, 0}}) : labels;
  const Tensor skips = state >= 2 && ne(labels, blanks(labels.shape())) &&
                       ne(labels, before);  // a blank between different labels may be left out
  const Tensor first = squeeze(slice(emitted, 0, {.start = 0, .stop = 1}), 0);
  Tensor alpha = where(state < 2, first, never);
  if (steps > 1) {
    const Shape times{steps - 1, batch, 1};
    const Tensor live =
        cast(build::positions(times, 0, x.device()) + 1 < reshape(input_lengths, Shape{1, batch, 1}), DType::i32);
    const ScanBody step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& slices) {
      const Tensor& a = carry[0];
      const Tensor next = log_sum(a, later(a, 1), where(skips, later(a, 2), never)) + slices[0];
      return Scanned{{where(slices[1] > 0, next, a)}, {}};
    };
    alpha = scan(step, {alpha}, {slice(emitted, 0, {.start = 1}), live}).carry[0];
  }
  const Tensor count = reshape(target_lengths, Shape{batch, 1}), none = count == 0;
  const Tensor last = gather(alpha, 1, 2 * count),
               label = where(none, never, gather(alpha, 1, maximum(2 * count - 1, 0)));
  const Tensor total = reshape(log_sum(last, label, full_like(last, never)), Shape{batch});
  const Tensor silent = input_lengths == 0, empty = target_lengths == 0;
  const Tensor impossible = total < 0.1 * never || (silent && !empty);
  return where(impossible, how.zero_infinity ? 0 : std::numeric_limits<double>::infinity(), where(silent, 0, -total));
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& time_lengths,
                const Tensor& label_lengths, const CtcOptions& how, Caller caller) {
  const CallerScope scope(caller);
  check_ctc(log_probabilities, targets, time_lengths, label_lengths, how.blank);
  const Tensor in = build::as_float(log_probabilities), x = build::widen(in);
  build::watch_indices("ctc_loss", time_lengths, {.axis = 0, .size = x.dim(0) + 1, .noun = "length"});
  build::watch_indices("ctc_loss", label_lengths, {.axis = 1, .size = targets.dim(1) + 1, .noun = "length"});
  const Tensor input_lengths = build::bounded(time_lengths, x.dim(0)),
               target_lengths = build::bounded(label_lengths, targets.dim(1));
  const Tensor counts = build::positions(targets.shape(), 1, x.device()) < unsqueeze(target_lengths, 1);
  build::watch_indices("ctc_loss", targets, {.axis = 2, .size = x.dim(2), .noun = "class", .used = counts});
  if (x.dim(1) == 0) return cast(reduced_losses(zeros(Shape{0}, x.dtype(), &x.device()), how.reduction), in.dtype());
  const Tensor losses = ctc_losses(x, targets, input_lengths, target_lengths, how);
  if (how.reduction != Reduction::mean) return cast(reduced_losses(losses, how.reduction), in.dtype());
  return cast(mean(losses / cast(maximum(target_lengths, 1), losses.dtype())), in.dtype());
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& how, Caller caller) {
  const CallerScope scope(caller);
  const Tensor& x = log_probabilities;
  build::check_device(x, targets, "nll_loss");
  bool fits = x.rank() >= 2 && targets.rank() == x.rank() - 1 && x.dim(1) > 0 && targets.dim(0) == x.dim(0);
  for (int d = 1; fits && d < targets.rank(); ++d) fits = targets.dim(d) == x.dim(d + 1);
  if (!fits)
    throw ShapeError(fmt::format("[nll_loss] log probabilities are {}, targets {}; expected (N, C, ...) and (N, ...)",
                                 x.shape().str(), targets.shape().str()));
  if (targets.dtype() != DType::i32 && targets.dtype() != DType::i64)
    throw DTypeError(
        fmt::format("[nll_loss] targets must be i32 or i64 class numbers, not {}", name_of(targets.dtype())));
  const Tensor in = build::as_float(x), wide = build::widen(in);
  const Tensor kept = how.ignore_index ? build::differs(targets, *how.ignore_index) : Tensor();
  build::watch_indices("nll_loss", targets,
                       {.axis = 1, .size = x.dim(1), .noun = "class", .used = kept, .ignored = how.ignore_index});
  const Tensor t = kept.defined() ? where(kept, targets, 0) : targets;
  Tensor losses = -squeeze(gather(wide, 1, unsqueeze(t, 1)), 1), counted;
  if (how.weight.defined()) {
    if (how.weight.shape() != Shape{x.dim(1)})
      throw ShapeError(fmt::format("[nll_loss] weight is {}; expected ({})", how.weight.shape().str(), x.dim(1)));
    counted = take(cast(how.weight, wide.dtype()), t);
    losses = losses * counted;
  }
  if (kept.defined()) {
    losses = where(kept, losses, 0);
    counted = counted.defined() ? where(kept, counted, 0) : cast(kept, losses.dtype());
  }
  if (how.reduction == Reduction::mean && counted.defined()) return cast(sum(losses) / sum(counted), in.dtype());
  return cast(reduced_losses(losses, how.reduction), in.dtype());
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& how, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(logits, target, "bce_with_logits");
  build::check_same_shape(logits, target, "bce_with_logits", "logits", "target");
  const DType common = promote(logits.dtype(), target.dtype()), dtype = is_float(common) ? common : DType::f32;
  const Tensor x = build::widen(cast(logits, dtype)), y = build::widen(cast(target, dtype));
  const auto factor = [&](const Tensor& w, const char* name) {
    if (!build::broadcasts_to(w.shape(), x.shape()))
      throw ShapeError(fmt::format("[bce_with_logits] {} {} does not broadcast to the logits {}", name, w.shape().str(),
                                   x.shape().str()));
    return cast(w, x.dtype());
  };
  Tensor losses = softplus(x) - x * y;
  if (how.positive_weight.defined())
    losses = (1 - y) * x + (1 + (factor(how.positive_weight, "positive_weight") - 1) * y) * softplus(-x);
  if (how.weight.defined()) losses = losses * factor(how.weight, "weight");
  return cast(reduced_losses(losses, how.reduction), dtype);
}

}  // namespace heddle
