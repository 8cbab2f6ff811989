#include "heddle/nn/linear_cross_entropy.h"

#include <fmt/format.h>

#include <limits>
#include <tuple>
#include <vector>

#include "heddle/autograd/custom.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/linalg/packed.h"

namespace heddle::nn {
namespace {

// The weight's rows, and what they make.
struct Classes {
  std::optional<GgmlType> packed;
  int64_t count = 0, stretch = 0;
  double smoothing = 0;

  // Calls step(carry, {rows, number of the first}) for each stretch: one loop of the device, so that no two stretches
  // are in memory at once; the rest behind it. What steps give by rows is put together.
  Scanned over(const Tensor& weight, const std::vector<Tensor>& init, const ScanBody& step) const {
    const int64_t whole = count / stretch, looped = whole * stretch;
    DeviceContext* device = &weight.device();
    Scanned all{init, {}};
    if (whole > 0) {
      const Tensor firsts = arange(0, static_cast<double>(looped), static_cast<double>(stretch), DType::i32, device);
      const Tensor rows = reshape(slice(weight, 0, {.stop = looped}), {whole, stretch, weight.dim(1)});
      all = scan(step, init, {rows, firsts});
      for (Tensor& y : all.ys) y = reshape(y, {looped, y.dim(2)});
    }
    if (looped == count) return all;
    const Tensor first = full({}, static_cast<double>(looped), DType::i32, device);
    Scanned rest = step(all.carry, {slice(weight, 0, {.start = looped}), first});
    for (size_t i = 0; i < rest.ys.size() && whole > 0; ++i) rest.ys[i] = concat({all.ys[i], rest.ys[i]}, 0);
    return rest;
  }
  // (N, C) times the rows' transpose.
  Tensor logits(const Tensor& x, const Tensor& rows) const {
    return packed ? matmul_packed(x, rows, *packed) : cast(matmul(x, transpose(rows)), x.dtype());
  }
  // (N, rows) times the rows.
  Tensor back(const Tensor& g, const Tensor& rows) const {
    return packed ? packed::input_grad(g, rows, *packed) : cast(matmul(g, rows), g.dtype());
  }
  Tensor rows_of(const Tensor& weight, const Tensor& targets) const {
    const Tensor rows = take(weight, targets, 0);
    return packed ? unpack_blocks(rows, *packed) : rows;
  }
};

// Losses of rows, (N), and the logarithms of their sums of exponentials, (N, 1).
struct Losses {
  Tensor losses, logarithms;
};

Losses losses_of(const Classes& classes, const Tensor& x, const Tensor& weight, const Tensor& targets) {
  const auto start = [&](double value) { return full({x.dim(0), 1}, value, x.dtype(), &x.device()); };
  std::vector<Tensor> init{start(-std::numeric_limits<double>::infinity()), start(0)};
  if (classes.smoothing > 0) init.push_back(start(0));
  const std::vector<Tensor> last = classes
                                       .over(weight, init,
                                             [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
                                               const Tensor logits = classes.logits(x, part[0]);
                                               const Tensor most = maximum(carry[0], max(logits, {1}, true));
                                               const Tensor sums =
                                                   carry[1] * exp(carry[0] - most) + sum(exp(logits - most), {1}, true);
                                               Scanned next{{most, sums}, {}};
                                               if (classes.smoothing > 0)
                                                 next.carry.push_back(carry[2] + sum(logits, {1}, true));
                                               return next;
                                             })
                                       .carry;
  const Tensor logarithms = last[0] + log(last[1]);
  const Tensor own = sum(x * cast(classes.rows_of(weight, targets), x.dtype()), {1}, true);
  const double share = classes.smoothing;
  const Tensor expected = share > 0 ? (1 - share) * own + (share / static_cast<double>(classes.count)) * last[2] : own;
  return {squeeze(logarithms - expected, 1), logarithms};
}

// Gradients of x and of the weight (undefined unless wanted) by cotangents g (N) of the losses.
std::pair<Tensor, Tensor> gradients_of(const Classes& classes, const Tensor& x, const Tensor& weight,
                                       const Tensor& targets, const Tensor& logarithms, const Tensor& g, bool both) {
  const Tensor factor = unsqueeze(g, 1), places = unsqueeze(targets, 1);
  const double even = classes.smoothing / static_cast<double>(classes.count);
  const Scanned all = classes.over(
      weight, {zeros(x.shape(), x.dtype(), &x.device())},
      [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
        const auto rows = static_cast<double>(part[0].dim(0));
        const Tensor numbers = arange(0, rows, 1, targets.dtype(), &x.device()) + cast(part[1], targets.dtype());
        const Tensor share = cast(places == numbers, x.dtype()) * (1 - classes.smoothing) + even;
        const Tensor d = factor * (exp(classes.logits(x, part[0]) - logarithms) - share);
        Scanned next{{carry[0] + classes.back(d, part[0])}, {}};
        if (both) next.ys.push_back(matmul(transpose(d), x));
        return next;
      });
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

// Losses of x (N, C), whose gradient computes the logits again.
Tensor losses_with_rule(const Classes& classes, const Tensor& given, const Tensor& matrix, const Tensor& classes_of) {
  const bool both = !classes.packed && matrix.requires_grad();
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
  const int64_t bytes = weight.dim(1);
  const int64_t width = packed ? bytes / block_of(*packed).bytes * block_of(*packed).elements : bytes;
  check(x, targets, width, o);
  const Classes classes{packed, weight.dim(0), o.stretch, o.label_smoothing};
  const DType dtype = packed ? DType::f32 : promote(promote(x.dtype(), weight.dtype()), DType::f32);
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
