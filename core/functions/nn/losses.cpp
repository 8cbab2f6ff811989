// Losses composed of other functions: one after the other, a few lines each, over the same checks and reductions.
#include "heddle/core/functions/nn/losses.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/nn/softmax.h"
#include "heddle/core/functions/shape/arrange.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/pick.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {
namespace {

Tensor reduce(const Tensor& losses, Reduction reduction, DType dtype) {
  switch (reduction) {
    case Reduction::mean:
      return cast(mean(losses), dtype);
    case Reduction::sum:
      return cast(sum(losses), dtype);
    case Reduction::none:
      return cast(losses, dtype);
  }
  return losses;
}

// Operands of one shape as floats of at least f32, and the dtype of the loss.
struct Operands {
  Tensor x, y;
  DType dtype = DType::f32;
};
Operands wide(const char* op, const Tensor& x, const Tensor& y) {
  build::check_device(x, y, op);
  const DType t = build::float_dtype(promote(x.dtype(), y.dtype()), Autocast::f32);
  return {build::widen(cast(x, t)), build::widen(cast(y, t)), t};
}
Operands paired(const char* op, const Tensor& x, const Tensor& y, const char* x_name = "input",
                const char* y_name = "target") {
  build::check_device(x, y, op);
  build::check_same_shape(x, y, op, x_name, y_name);
  return wide(op, x, y);
}

void check(const char* op, const char* name, double value, bool good, const char* rule) {
  if (!good) throw ValueError(fmt::format("[{}] {} is {}; it must be {}", op, name, value, rule));
}

void check_whole(const char* op, const Tensor& targets) {
  if (targets.dtype() == DType::i32 || targets.dtype() == DType::i64) return;
  throw DTypeError(fmt::format("[{}] targets must be i32 or i64 class numbers, not {}", op, name_of(targets.dtype())));
}

// x (N, C) beside (N) class numbers.
void check_classes(const char* op, const Tensor& x, const Tensor& targets) {
  build::check_device(x, targets, op);
  if (x.rank() != 2 || targets.rank() != 1 || x.dim(0) != targets.dim(0) || x.dim(1) == 0) {
    throw ShapeError(fmt::format("[{}] input is {}, targets are {}; expected (N, C) with classes and (N)", op,
                                 x.shape().str(), targets.shape().str()));
  }
  check_whole(op, targets);
}

Tensor pick(const Tensor& x, const Tensor& targets) {
  return squeeze(gather(x, 1, unsqueeze(targets, 1)), 1);
}  // x[n, targets[n]]

// v cut off at 0. As PyTorch's clamp in these losses, and unlike relu(), it has no gradient where v is NaN.
Tensor above_zero(const Tensor& v) { return maximum(v, 0); }

// total^(1/p) with the gradient 0 where the total is 0.
Tensor root(const Tensor& total, double p) {
  const Tensor none = total == 0, base = where(none, 1, total);
  return where(none, 0, p == 2 ? sqrt(base) : pow(base, 1 / p));
}

Tensor distance(const Tensor& a, const Tensor& b, double p, double epsilon, bool keepdim) {
  const Tensor d = abs(a - b + epsilon);
  if (std::isinf(p)) return max(d, {-1}, keepdim);
  if (p == 1) return sum(d, {-1}, keepdim);
  return root(sum(p == 2 ? square(d) : pow(d, p), {-1}, keepdim), p);
}

// a . b / (max(|a|, epsilon) max(|b|, epsilon)); a vector of zeros has the gradient 0 for its norm.
Tensor cosine(const Tensor& a, const Tensor& b, int axis, double epsilon) {
  const auto norm = [&](const Tensor& v) { return sqrt(maximum(sum(square(v), {axis}), epsilon * epsilon)); };
  return sum(a * b, {axis}) / (norm(a) * norm(b));
}

// Logits (N, C, ...) as (M, C), targets (N, ...) as (M).
struct Rows {
  Tensor logits, targets;
  bool probabilities = false;
};
Tensor classes_last(const Tensor& x) {
  std::vector<int> order{0};
  for (int d = 2; d < x.rank(); ++d) order.push_back(d);
  order.push_back(1);
  const Tensor moved = x.rank() == 2 ? x : permute(x, order);
  return reshape(moved, Shape{x.numel() / x.dim(1), x.dim(1)});
}
Rows rows_of(const Tensor& logits, const Tensor& targets) {
  build::check_device(logits, targets, "cross_entropy");
  if (logits.rank() < 2 || logits.dim(1) == 0)
    throw ShapeError(
        fmt::format("[cross_entropy] logits are {}; expected (N, C, ...) with classes", logits.shape().str()));
  const Tensor x = build::widen(build::as_float(logits));
  if (is_float(targets.dtype())) {
    build::check_same_shape(logits, targets, "cross_entropy", "logits", "targets (probabilities)");
    return {classes_last(x), classes_last(build::widen(targets)), true};
  }
  check_whole("cross_entropy", targets);
  std::vector<int64_t> expected;
  for (int d = 0; d < logits.rank(); ++d) {
    if (d != 1) expected.push_back(logits.dim(d));
  }
  if (targets.shape() != Shape(expected)) {
    throw ShapeError(
        fmt::format("[cross_entropy] logits are {}, targets {}; expected (N, C, ...) and class numbers (N, ...), or "
                    "probabilities (N, C, ...)",
                    logits.shape().str(), targets.shape().str()));
  }
  return {classes_last(x), reshape(targets, Shape{targets.numel()}), false};
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& how, Caller caller) {
  const CallerScope scope(caller);
  check("cross_entropy", "label_smoothing", how.label_smoothing, how.label_smoothing >= 0 && how.label_smoothing <= 1,
        "between 0 and 1");
  const Rows rows = rows_of(logits, targets);
  const int64_t classes = rows.logits.dim(1);
  const Tensor& weight = how.weight;
  if (weight.defined() && (weight.rank() != 1 || weight.dim(0) != classes || !is_float(weight.dtype()))) {
    throw ShapeError(fmt::format("[cross_entropy] weight is {}; expected ({}): a float for each class",
                                 build::show(weight), classes));
  }
  const double smoothing = how.label_smoothing;
  Tensor logp = log_softmax(rows.logits);  // (M, C)
  if (rows.probabilities) {
    if (how.ignore_index)
      throw ValueError(
          "[cross_entropy] ignore_index is for class numbers, the targets are probabilities; give a row of zeros "
          "instead");
    if (weight.defined()) logp = logp * weight;
    const Tensor y =
        smoothing > 0 ? rows.targets * (1 - smoothing) + smoothing / static_cast<double>(classes) : rows.targets;
    const Tensor losses = -sum(y * logp, {1});
    if (how.reduction != Reduction::none) return reduce(losses, how.reduction, losses.dtype());
    std::vector<int64_t> shape{logits.dim(0)};
    for (int d = 2; d < logits.rank(); ++d) shape.push_back(logits.dim(d));
    return reshape(losses, Shape(shape));
  }
  const Tensor kept = how.ignore_index ? build::differs(rows.targets, *how.ignore_index) : Tensor();
  build::watch_indices("cross_entropy", targets,
                       {.axis = 1,
                        .size = classes,
                        .noun = "class",
                        .used = kept.defined() ? reshape(kept, targets.shape()) : Tensor(),
                        .ignored = how.ignore_index});
  const Tensor t = kept.defined() ? where(kept, rows.targets, 0) : rows.targets;
  Tensor counted = weight.defined() ? take(build::widen(weight), t, 0) : Tensor();  // (M)
  Tensor losses = -pick(logp, t);
  if (counted.defined()) losses = losses * counted;
  if (smoothing > 0)
    losses = (1 - smoothing) * losses -
             smoothing / static_cast<double>(classes) * sum(weight.defined() ? logp * weight : logp, {1});
  if (kept.defined()) {
    losses = where(kept, losses, 0);
    counted = counted.defined() ? where(kept, counted, 0) : cast(kept, losses.dtype());
  }
  if (how.reduction == Reduction::none) return reshape(losses, targets.shape());
  if (how.reduction == Reduction::mean && counted.defined()) return sum(losses) / sum(counted);
  return reduce(losses, how.reduction, losses.dtype());
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [p, y, dtype] = paired("binary_cross_entropy", probabilities, target, "probabilities");
  // The inner where keeps the gradient finite where the logarithm is cut off.
  const auto logarithm = [](const Tensor& v) {
    const Tensor none = v <= 0;
    return where(none, -100, maximum(log(where(none, 1, v)), -100));
  };
  return reduce(-(y * logarithm(p) + (1 - y) * logarithm(1 - p)), reduction, dtype);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  check("smooth_l1_loss", "beta", beta, beta >= 0, "at least 0");
  const auto [x, y, dtype] = paired("smooth_l1_loss", input, target);
  const Tensor d = abs(x - y);
  const Tensor near = d < beta;  // an infinity on the side not taken would become a NaN gradient
  return reduce(beta == 0 ? d : where(near, square(where(near, d, 0)) * (0.5 / beta), d - 0.5 * beta), reduction,
                dtype);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y, dtype] = paired("soft_margin_loss", input, target);
  return reduce(softplus(-(y * x)), reduction, dtype);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin, Reduction reduction,
                            Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y, dtype] = paired("hinge_embedding_loss", input, target);
  return reduce(where(y == 1, x, above_zero(margin - x)), reduction, dtype);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin, Reduction reduction,
                           Caller caller) {
  const CallerScope scope(caller);
  build::check_same_shape(a, target, "margin_ranking_loss", "a", "target");
  const auto [x, y, dtype] = paired("margin_ranking_loss", a, b, "a", "b");
  return reduce(above_zero(margin - target * (x - y)), reduction, dtype);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin, Reduction reduction,
                             Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y, dtype] = paired("cosine_embedding_loss", a, b, "a", "b");
  if (a.rank() < 1 || a.rank() > 2 || target.rank() != a.rank() - 1 || (a.rank() == 2 && target.dim(0) != a.dim(0))) {
    throw ShapeError(
        fmt::format("[cosine_embedding_loss] a and b are {}, target is {}; expected (N, D) and (N), or (D) and ()",
                    a.shape().str(), target.shape().str()));
  }
  const Tensor c = cosine(x, y, a.rank() - 1, 1e-6);
  return reduce(where(target == 1, 1 - c, above_zero(c - margin)), reduction, dtype);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& how, Caller caller) {
  const CallerScope scope(caller);
  check("triplet_margin_loss", "p", how.p, how.p > 0, "positive");
  build::check_same_shape(anchor, negative, "triplet_margin_loss", "anchor", "negative");
  const auto [a, b, dtype] = paired("triplet_margin_loss", anchor, positive, "anchor", "positive");
  if (anchor.rank() == 0)
    throw ShapeError("[triplet_margin_loss] scalars have no axis to measure along; expected (N, D) or (D)");
  const Tensor c = cast(negative, a.dtype());
  const auto between = [&](const Tensor& u, const Tensor& v) { return distance(u, v, how.p, how.epsilon, false); };
  const Tensor far = how.swap ? minimum(between(a, c), between(b, c)) : between(a, c);
  return reduce(above_zero(between(a, b) - far + how.margin), how.reduction, dtype);
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const Distance& distance, const TripletDistanceOptions& how, Caller caller) {
  const CallerScope scope(caller);
  const char* op = "triplet_margin_with_distance_loss";
  build::check_same_shape(anchor, negative, op, "anchor", "negative");
  const auto [a, b, dtype] = paired(op, anchor, positive, "anchor", "positive");
  if (anchor.rank() == 0)
    throw ShapeError(
        fmt::format("[{}] the anchor is {}: a scalar has no rows; expected (N, D)", op, anchor.shape().str()));
  build::check_device(anchor, negative, op);
  const Tensor c = cast(negative, a.dtype());
  if (!distance) throw ValueError(fmt::format("[{}] the distance is an empty function", op));
  const auto between = [&](const Tensor& u, const Tensor& v) {
    const Tensor d = distance(u, v);
    if (!d.defined() || d.rank() == 0 || d.dim(0) != u.dim(0)) {
      throw ShapeError(fmt::format("[{}] the distance gives a number for each row of (N, D); got {} for {}", op,
                                   d.defined() ? d.shape().str() : "nothing", u.shape().str()));
    }
    return d;
  };
  const Tensor near = between(a, b), far = how.swap ? minimum(between(a, c), between(b, c)) : between(a, c);
  build::check_same_shape(near, far, op, "the distance of the positive", "that of the negative");
  return reduce(above_zero(near - far + how.margin), how.reduction, dtype);
}

AdaptiveLogSoftmax adaptive_log_softmax_with_loss(const Tensor& x, const Tensor& targets, const Tensor& head,
                                                  std::span<const AdaptiveTail> tails, Caller caller) {
  const CallerScope scope(caller);
  const char* op = "adaptive_log_softmax_with_loss";
  const auto clusters = static_cast<int64_t>(tails.size());
  const auto refuse = [&](const std::string& what) {
    throw ShapeError(
        fmt::format("[{}] expected x (N, D), targets (N), head (S + {}, D) with S > 0, and for each tail (D', D) and "
                    "(C', D'); got x {}, targets {}, head {}{}",
                    op, clusters, x.shape().str(), targets.shape().str(), head.shape().str(), what));
  };
  if (x.rank() != 2 || targets.rank() != 1 || targets.dim(0) != x.dim(0) || head.rank() != 2 ||
      head.dim(1) != x.dim(1) || head.dim(0) <= clusters)
    refuse("");
  check_whole(op, targets);
  const int64_t frequent = head.dim(0) - clusters;
  int64_t classes = frequent;
  for (const AdaptiveTail& tail : tails) {
    const Tensor &down = tail.projection, &rows = tail.rows;
    if (down.rank() != 2 || rows.rank() != 2 || down.dim(1) != x.dim(1) || rows.dim(1) != down.dim(0) ||
        rows.dim(0) == 0)
      refuse(fmt::format(", a tail {} and {}", down.shape().str(), rows.shape().str()));
    classes += rows.dim(0);
  }
  build::watch_indices(op, targets, {.axis = 0, .size = classes, .noun = "class"});
  const Tensor first = log_softmax(build::widen(matmul(build::as_float(x), transpose(head))));
  const Tensor labels = clamp(build::wrapped(targets, classes), 0, static_cast<double>(classes - 1));
  Tensor output = pick(first, minimum(labels, static_cast<double>(frequent - 1)));
  int64_t begin = frequent;
  for (int64_t i = 0; i < clusters; ++i) {
    const AdaptiveTail& tail = tails[static_cast<size_t>(i)];
    const int64_t count = tail.rows.dim(0);
    const Tensor inside =
        log_softmax(build::widen(matmul(matmul(build::as_float(x), transpose(tail.projection)), transpose(tail.rows))));
    const Tensor number = clamp(labels - static_cast<double>(begin), 0, static_cast<double>(count - 1));
    output = where(labels >= static_cast<double>(begin), select(first, 1, frequent + i) + pick(inside, number), output);
    begin += count;
  }
  output = cast(output, build::float_dtype(x.dtype(), Autocast::f32));
  return {output, -mean(output)};
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& targets, int p, double margin, Reduction reduction,
                         Caller caller) {
  const CallerScope scope(caller);
  check("multi_margin_loss", "p", p, p == 1 || p == 2, "1 or 2");
  check_classes("multi_margin_loss", input, targets);
  const Tensor in = build::as_float(input, Autocast::f32), x = build::widen(in);
  build::watch_indices("multi_margin_loss", targets, {.axis = 1, .size = input.dim(1), .noun = "class"});
  const Tensor hinge = relu(margin - unsqueeze(pick(x, targets), 1) + x);  // (N, C)
  const Tensor other = one_hot(targets, x.dim(1), DType::boolean);
  return reduce(mean(where(other, 0, p == 1 ? hinge : square(hinge)), {1}), reduction, in.dtype());
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& targets, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(input, targets, "multilabel_margin_loss");
  build::check_same_shape(input, targets, "multilabel_margin_loss", "input", "targets");
  if (input.rank() != 2 || input.dim(1) == 0)
    throw ShapeError(
        fmt::format("[multilabel_margin_loss] input is {}; expected (N, C) with classes", input.shape().str()));
  check_whole("multilabel_margin_loss", targets);
  const Tensor in = build::as_float(input, Autocast::f32), x = build::widen(in);
  const Tensor listed = cumsum(cast(targets < 0, DType::i32), 1) == 0;  // (N, J)
  const Tensor index = where(listed, targets, 0);
  build::watch_indices("multilabel_margin_loss", index, {.axis = 1, .size = x.dim(1), .noun = "class"});
  const Tensor here = one_hot(index, x.dim(1), DType::boolean) && unsqueeze(listed, 2);  // (N, J, C)
  const Tensor target = max(cast(here, DType::i32), {1}, true) > 0;                      // (N, 1, C)
  const Tensor hinge = relu(1 - unsqueeze(gather(x, 1, index), 2) + unsqueeze(x, 1));
  const Tensor losses =
      sum(where(unsqueeze(listed, 2) && !target, hinge, 0), {1, 2}) * (1.0 / static_cast<double>(x.dim(1)));
  return reduce(losses, reduction, in.dtype());
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y, dtype] = paired("multilabel_soft_margin_loss", input, target);
  if (x.rank() == 0) throw ShapeError("[multilabel_soft_margin_loss] a scalar has no axis of classes; expected (N, C)");
  return reduce(mean(softplus(x) - x * y, {-1}), reduction, dtype);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonOptions& how, Caller caller) {
  const CallerScope scope(caller);
  const auto [x, y, dtype] = paired("poisson_nll_loss", input, target);
  Tensor losses = how.log_input ? exp(x) - y * x : x - y * log(x + how.epsilon);
  if (how.stirling) {
    const Tensor large = y > 1, n = where(large, y, 1);
    losses = losses + where(large, n * log(n) - n + 0.5 * log(2 * std::numbers::pi * n), 0);
  }
  return reduce(losses, how.reduction, dtype);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance, const GaussianOptions& how,
                         Caller caller) {
  const CallerScope scope(caller);
  check("gaussian_nll_loss", "epsilon", how.epsilon, how.epsilon > 0, "positive");
  const auto [x, y, dtype] = paired("gaussian_nll_loss", input, target);
  if (broadcast_shapes(input.shape(), variance.shape(), "gaussian_nll_loss") != input.shape()) {
    throw ShapeError(
        fmt::format("[gaussian_nll_loss] variance is {}, input is {}; the variance must broadcast to the input's shape",
                    variance.shape().str(), input.shape().str()));
  }
  const Tensor given = build::widen(build::as_float(variance));
  const Tensor v = given + stop_gradient(maximum(given, how.epsilon) - given);
  Tensor losses = 0.5 * (log(v) + square(x - y) / v);
  if (how.constant) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduce(losses, how.reduction, dtype);
}

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha, double gamma, Reduction reduction,
                          Caller caller) {
  const CallerScope scope(caller);
  check("sigmoid_focal_loss", "gamma", gamma, gamma >= 0, "at least 0");
  check("sigmoid_focal_loss", "alpha", alpha, alpha <= 1, "at most 1");
  const auto [x, y, dtype] = paired("sigmoid_focal_loss", logits, target, "logits");
  const Tensor missed = sigmoid(x) * (1 - y) + sigmoid(-x) * y;  // 1 - p_t without cancellation
  Tensor losses = softplus(x) - x * y;
  if (gamma > 0) losses = losses * (gamma == 2 ? square(missed) : pow(missed, gamma));
  if (alpha >= 0) losses = losses * (alpha * y + (1 - alpha) * (1 - y));
  return reduce(losses, reduction, dtype);
}

Tensor dice_loss(const Tensor& probabilities, const Tensor& target, double smooth, Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  check("dice_loss", "smooth", smooth, smooth >= 0, "at least 0");
  const auto [p, y, dtype] = paired("dice_loss", probabilities, target, "probabilities");
  if (p.rank() < 2)
    throw ShapeError(fmt::format("[dice_loss] probabilities are {}; expected (N, ...)", probabilities.shape().str()));
  std::vector<int> axes;
  for (int d = 1; d < p.rank(); ++d) axes.push_back(d);
  return reduce(1 - (2 * sum(p * y, axes) + smooth) / (sum(p, axes) + sum(y, axes) + smooth), reduction, dtype);
}

}  // namespace heddle
