#include "heddle/core/functions/nn/loss.h"

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::record;

Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
    case Reduction::none:
      return losses;
  }
  return losses;
}

// logits or log probabilities (N, C) beside targets (N).
void check_targets(const Tensor& x, const Tensor& targets, const char* op, const char* x_name) {
  build::check_device(x, targets, op);
  if (x.rank() != 2 || targets.rank() != 1 || x.shape()[0] != targets.shape()[0]) {
    throw ShapeError(fmt::format("[{}] {} are {}, targets {}; expected (N, C) and (N): class numbers, not one-hot rows",
                                 op, x_name, x.shape().str(), targets.shape().str()));
  }
  if (x.shape()[1] == 0)
    throw ShapeError(fmt::format("[{}] {} are {}: there are no classes", op, x_name, x.shape().str()));
  if (targets.dtype() != DType::i32 && targets.dtype() != DType::i64) {
    throw DTypeError(
        fmt::format("[{}] targets must be i32 or i64 class numbers, not {}", op, name_of(targets.dtype())));
  }
  build::watch_indices(op, targets, {.axis = 1, .size = x.dim(1), .noun = "class"});
}

// Both inputs of a two-sided loss as floats of one shape.
std::pair<Tensor, Tensor> paired(const Tensor& x, const Tensor& y, const char* op, const char* x_name) {
  build::check_device(x, y, op);
  build::check_same_shape(x, y, op, x_name, "target");
  const DType wide = build::float_dtype(promote(x.dtype(), y.dtype()), Autocast::f32);
  return {cast(x, wide), cast(y, wide)};
}

}  // namespace

// Half-precision logits give f32 losses: a loss of 16 bits has too few digits to sum.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  check_targets(logits, targets, "cross_entropy", "logits");
  const Tensor in = build::widen(build::as_float(logits));
  const Tensor losses = record(ops::cross_entropy_op, {&in, &targets}, {}, targets.shape(), in.dtype());
  return reduced(losses, reduction);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  check_targets(log_probabilities, targets, "nll_loss", "log probabilities");
  const Tensor picked = gather(build::as_float(log_probabilities, Autocast::f32), 1, unsqueeze(targets, 1));
  return reduced(-reshape(picked, targets.shape()), reduction);
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y] = paired(input, target, "mse_loss", "input");
  return reduced(square(x - y), reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y] = paired(input, target, "l1_loss", "input");
  return reduced(abs(x - y), reduction);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y] = paired(logits, target, "bce_with_logits", "logits");
  return reduced(softplus(x) - x * y, reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, double delta, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  if (!(delta > 0)) throw ValueError(fmt::format("[huber_loss] delta is {}; it must be positive", delta));
  const auto [x, y] = paired(input, target, "huber_loss", "input");
  const Tensor distance = abs(x - y);
  const Tensor near = distance <= delta;  // an infinity on the side not taken would become a NaN gradient
  return reduced(where(near, 0.5 * square(where(near, distance, 0)), delta * (distance - 0.5 * delta)), reduction);
}

// 0 * log 0 counts as 0; the inner where keeps the logarithm's gradient finite there.
Tensor kl_div(const Tensor& log_input, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y] = paired(log_input, target, "kl_div", "log_input");
  const Tensor entropy = y * log(where(eq(y, 0.0), 1.0, y));
  return reduced(entropy - y * x, reduction);
}

}  // namespace heddle
