#include "heddle/nn/linear_cross_entropy.h"

#include <fmt/format.h>

#include <tuple>
#include <vector>

#include "heddle/autograd/custom.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/class_stretches.h"

namespace heddle::nn {
namespace {

// The weight's rows, and what their losses are.
struct Classes : ClassRows {
  ClassStretches stretches;
  double smoothing = 0;
};

// Losses of rows, (N), and the logarithms of their sums of exponentials, (N, 1).
struct Losses {
  Tensor losses, logarithms;
};

Losses losses_of(const Classes& classes, const Tensor& x, const Tensor& weight, const Tensor& targets) {
  const double share = classes.smoothing;
  const RunningSums none = RunningSums::before(x);
  std::vector<Tensor> init{none.most, none.sums};
  if (share > 0) init.push_back(zeros({x.dim(0), 1}, x.dtype(), &x.device()));
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const Tensor logits = classes.logits(x, part[0]);
    const RunningSums sums = RunningSums{carry[0], carry[1]}.with(logits);
    Scanned next{{sums.most, sums.sums}, {}};
    if (share > 0) next.carry.push_back(carry[2] + sum(logits, {1}, true));
    return next;
  };
  const std::vector<Tensor> last = classes.stretches.over({weight}, init, step).carry;
  const Tensor logarithms = RunningSums{last[0], last[1]}.logarithms();
  const Tensor own = sum(x * cast(classes.of(weight, targets), x.dtype()), {1}, true);
  const auto count = static_cast<double>(classes.stretches.count);
  const Tensor expected = share > 0 ? (1 - share) * own + (share / count) * last[2] : own;
  return {squeeze(logarithms - expected, 1), logarithms};
}

// Losses of rows, (N), and each one's gradient by its row of x, (N, C).
struct Sloped {
  Tensor losses, slopes;
};

// The slope is softmax(x W^T) W - W[target]: attention whose keys and values are the classes, so the same pass that
// adds exponentials up adds these rows, behind the largest logit so far (Dao et al. 2022, "FlashAttention", algorithm
// 1). Two products with the weight instead of three, where it needs no gradient. Without smoothing.
Sloped sloped_losses_of(const Classes& classes, const Tensor& x, const Tensor& weight, const Tensor& targets) {
  const RunningSums none = RunningSums::before(x);
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const auto [sums, kept, shares] = RunningSums{carry[0], carry[1]}.widened(classes.logits(x, part[0]));
    return Scanned{{sums.most, sums.sums, carry[2] * kept + classes.back(shares, part[0])}, {}};
  };
  const std::vector<Tensor> last =
      classes.stretches.over({weight}, {none.most, none.sums, zeros(x.shape(), x.dtype(), &x.device())}, step).carry;
  const Tensor own = cast(classes.of(weight, targets), x.dtype());
  const Tensor losses = RunningSums{last[0], last[1]}.logarithms() - sum(x * own, {1}, true);
  return {squeeze(losses, 1), last[2] / last[1] - own};
}

// Gradients of x and of the weight (undefined unless wanted) by cotangents g (N) of the losses.
std::pair<Tensor, Tensor> gradients_of(const Classes& classes, const Tensor& x, const Tensor& weight,
                                       const Tensor& targets, const Tensor& logarithms, const Tensor& g, bool both) {
  const Tensor factor = unsqueeze(g, 1), places = unsqueeze(targets, 1);
  const double even = classes.smoothing / static_cast<double>(classes.stretches.count);
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const auto rows = static_cast<double>(part[0].dim(0));
    const Tensor numbers = arange(0, rows, 1, targets.dtype(), &x.device()) + cast(part[1], targets.dtype());
    const Tensor share = cast(places == numbers, x.dtype()) * (1 - classes.smoothing) + even;
    const Tensor d = factor * (exp(classes.logits(x, part[0]) - logarithms) - share);
    Scanned next{{carry[0] + classes.back(d, part[0])}, {}};
    if (both) next.ys.push_back(matmul(transpose(d), x));
    return next;
  };
  const Scanned all = classes.stretches.over({weight}, {zeros(x.shape(), x.dtype(), &x.device())}, step);
  return {all.carry[0], both ? cast(all.ys[0], weight.dtype()) : Tensor()};
}

void check(const Tensor& x, const Tensor& targets, int64_t width, const LinearCrossEntropyOptions& o) {
  const auto fail_shape = [&] {
    throw ShapeError(
        fmt::format("[linear_cross_entropy] x is {}, targets {}, the weight's rows have {} elements; "
                    "expected (..., C), (...) and (V, C)",
                    x.shape().str(), targets.shape().str(), width));
  };
  if (x.rank() < 1 || targets.rank() != x.rank() - 1 || x.dim(-1) != width) fail_shape();
  for (int i = 0; i < targets.rank(); ++i) {
    if (targets.dim(i) != x.dim(i)) fail_shape();
  }
  if (!is_float(x.dtype()) || (targets.dtype() != DType::i32 && targets.dtype() != DType::i64))
    throw DTypeError(
        fmt::format("[linear_cross_entropy] x is {}, targets are {}; expected floats, and i32 or i64 class "
                    "numbers",
                    name_of(x.dtype()), name_of(targets.dtype())));
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
    throw ValueError(
        fmt::format("[linear_cross_entropy] label_smoothing is {}; it must be in [0, 1]", o.label_smoothing));
  if (o.stretch < 1)
    throw ValueError(fmt::format("[linear_cross_entropy] stretch is {}; it must be at least 1", o.stretch));
}

// Losses of x (N, C) whose gradient is on its way in the same pass.
Tensor losses_with_slopes(const Classes& classes, const Tensor& given, const Tensor& matrix, const Tensor& classes_of) {
  const auto f = custom_vjp([classes](const Tensor& x, const Tensor& weight,
                                      const Tensor& targets) { return losses_of(classes, x, weight, targets).losses; },
                            [classes](const Tensor& x, const Tensor& weight, const Tensor& targets) {
                              const auto [losses, slopes] = sloped_losses_of(classes, x, weight, targets);
                              return std::pair(losses, std::tuple(slopes));
                            },
                            [](const std::tuple<Tensor>& kept, const Tensor& g) {
                              return std::tuple(unsqueeze(g, 1) * std::get<0>(kept), Tensor(), Tensor());
                            });
  return f(given, matrix, classes_of);
}

// Losses of x (N, C), whose gradient computes the logits again where it has to.
Tensor losses_with_rule(const Classes& classes, const Tensor& given, const Tensor& matrix, const Tensor& classes_of) {
  const bool both = !classes.packed && matrix.requires_grad();
  if (!both && classes.smoothing == 0) return losses_with_slopes(classes, given, matrix, classes_of);
  const auto f = custom_vjp([classes](const Tensor& x, const Tensor& weight,
                                      const Tensor& targets) { return losses_of(classes, x, weight, targets).losses; },
                            [classes](const Tensor& x, const Tensor& weight, const Tensor& targets) {
                              const auto [losses, logarithms] = losses_of(classes, x, weight, targets);
                              return std::pair(losses, std::tuple(x, weight, targets, logarithms));
                            },
                            [classes, both](const std::tuple<Tensor, Tensor, Tensor, Tensor>& kept, const Tensor& g) {
                              const auto& [x, weight, targets, logarithms] = kept;
                              const auto [dx, dw] = gradients_of(classes, x, weight, targets, logarithms, g, both);
                              return std::tuple(dx, dw, Tensor());
                            });
  return f(given, matrix, classes_of);
}

Tensor linear_cross_entropy_of(const Tensor& x, const Tensor& weight, std::optional<GgmlType> packed,
                               const Tensor& targets, const LinearCrossEntropyOptions& o) {
  const Classes classes{{packed}, {weight.dim(0), o.stretch}, o.label_smoothing};
  const int64_t width = classes.width(weight);
  check(x, targets, width, o);
  const DType dtype = classes.dtype(x, weight);
  const Tensor rows = reshape(cast(x, dtype), {targets.numel(), width});
  const Tensor flat = reshape(targets, {targets.numel()});
  const Tensor counts = o.ignore_index ? cast(flat != static_cast<double>(*o.ignore_index), dtype) : Tensor();
  const Tensor known = o.ignore_index ? flat * cast(counts, flat.dtype()) : flat;
  Tensor losses = losses_with_rule(classes, rows, weight, known);
  if (counts.defined()) losses = losses * counts;
  if (o.reduction == Reduction::none) return reshape(losses, targets.shape());
  if (o.reduction == Reduction::sum) return sum(losses);
  return counts.defined() ? sum(losses) / sum(counts) : mean(losses);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options, Caller caller) {
  const CallerScope scope(caller);
  if (weight.rank() != 2 || weight.dim(0) < 1 || !is_float(weight.dtype()))
    throw ShapeError(fmt::format("[linear_cross_entropy] the weight is {} {}; expected (V, C) floats",
                                 weight.shape().str(), name_of(weight.dtype())));
  return linear_cross_entropy_of(x, weight, {}, targets, options);
}

Tensor linear_cross_entropy(const Tensor& x, const Projection& head, const Tensor& targets,
                            const LinearCrossEntropyOptions& options, Caller caller) {
  const CallerScope scope(caller);
  return linear_cross_entropy_of(x, head.weight, head.packed(), targets, options);
}

Tensor linear_log_probabilities(const Tensor& x, const Projection& head, const Tensor& targets,
                                const LinearLogProbabilityOptions& o, Caller caller) {
  const CallerScope scope(caller);
  return -linear_cross_entropy_of(x, head.weight, head.packed(), targets,
                                  {.reduction = Reduction::none, .ignore_index = o.ignore_index, .stretch = o.stretch});
}

}  // namespace heddle::nn
