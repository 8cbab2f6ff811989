#include "heddle/nn/tensor_parallel.h"

#include <fmt/format.h>

#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/collectives.h"
#include "heddle/nn/rank_part.h"

namespace heddle::nn {
namespace {

using distributed::AxisNames;

void check_linear(const char* who, const Tensor& weight, const Tensor& bias) {
  if (weight.rank() == 2 && (!bias.defined() || bias.shape() == Shape{weight.dim(0)})) return;
  throw ShapeError(fmt::format("[{}] the weight is {} and the bias {}; expected (out, in) and (out)", who,
                               weight.shape().str(), bias.defined() ? bias.shape().str() : "undefined"));
}

void check_input(const char* who, const Tensor& x, const Tensor& weight) {
  if (x.rank() > 0 && x.dim(-1) == weight.dim(1)) return;
  throw ShapeError(fmt::format("[{}] input {} does not end in {}, the size of this rank's input (weight {})", who,
                               x.shape().str(), weight.dim(1), weight.shape().str()));
}

// Numbers of rows or classes among all `count` of every rank, as numbers among this rank's, and whether it has them.
struct Local {
  Tensor number, here;
};
Local local_numbers(const Tensor& numbers, double count, const AxisNames& axes) {
  const Tensor first = cast(distributed::axis_index(axes, &numbers.device()), numbers.dtype()) * count;
  const Tensor number = numbers - first;
  const Tensor here = logical_and(number >= 0, number < count);
  return {where(here, number, 0), here};
}

// Rows of the table that the rank has, zeros in the place of others.
Tensor own_rows_of(const Tensor& indices, const Tensor& part, const AxisNames& axes) {
  const auto own_rows = static_cast<double>(part.dim(0));
  const double rows = own_rows * static_cast<double>(distributed::axis_size(axes));
  // As embedding(): from the end once, then into range (docs/numbers.md).
  const Tensor number = clamp(where(indices < 0, indices + rows, indices), 0, rows - 1);
  const Local own = local_numbers(number, own_rows, axes);
  const Tensor found = embedding(part, own.number);
  return where(unsqueeze(own.here, -1), found, 0);
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const Tensor& whole, const Tensor& shift, const AxisNames& axes)
    : Module("ColumnParallelLinear"), axes_(axes) {
  check_linear("ColumnParallelLinear", whole, shift);
  weight = add_parameter("weight", rank_part("ColumnParallelLinear", whole, 0, axes));
  if (shift.defined()) bias = add_parameter("bias", rank_part("ColumnParallelLinear", shift, 0, axes));
}

Tensor ColumnParallelLinear::forward(const Tensor& x) {
  check_input("ColumnParallelLinear", x, weight);
  return linear(x, typed_part(weight, axes_), bias.defined() ? typed_part(bias, axes_) : bias);
}

RowParallelLinear::RowParallelLinear(const Tensor& whole, const Tensor& shift, const AxisNames& axes)
    : Module("RowParallelLinear"), axes_(axes) {
  check_linear("RowParallelLinear", whole, shift);
  weight = add_parameter("weight", rank_part("RowParallelLinear", whole, 1, axes));
  if (shift.defined()) bias = add_parameter("bias", shift.detach());
}

Tensor RowParallelLinear::forward(const Tensor& x) {
  check_input("RowParallelLinear", x, weight);
  const Tensor y = distributed::psum(linear(x, typed_part(weight, axes_), {}), axes_);
  return bias.defined() ? y + bias : y;
}

VocabParallelEmbedding::VocabParallelEmbedding(const Tensor& whole, const AxisNames& axes)
    : Module("VocabParallelEmbedding"), axes_(axes) {
  if (whole.rank() != 2)
    throw ShapeError(
        fmt::format("[VocabParallelEmbedding] the table is {}; expected (rows, width)", whole.shape().str()));
  weight = add_parameter("weight", rank_part("VocabParallelEmbedding", whole, 0, axes));
}

Tensor VocabParallelEmbedding::forward(const Tensor& indices) {
  return vocab_parallel_embedding(indices, typed_part(weight, axes_), axes_);
}

Tensor vocab_parallel_embedding(const Tensor& indices, const Tensor& part, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return distributed::psum(own_rows_of(indices, part, axes), axes);
}

Tensor vocab_parallel_embedding_in_parts(const Tensor& indices, const Tensor& part, const AxisNames& axes,
                                         Caller caller) {
  const CallerScope scope(caller);
  return distributed::reduce_scatter(own_rows_of(indices, part, axes), axes, 0);
}

Tensor vocab_parallel_cross_entropy(const Tensor& logits, const Tensor& targets, const AxisNames& axes,
                                    Reduction reduction, Caller caller) {
  const CallerScope scope(caller);
  if (logits.rank() != 2 || targets.shape() != Shape{logits.dim(0)} || logits.dim(1) == 0) {
    throw ShapeError(
        fmt::format("[vocab_parallel_cross_entropy] logits {} and targets {}; expected (N, classes) and (N)",
                    logits.shape().str(), targets.shape().str()));
  }
  const Tensor most = distributed::pmax(stop_gradient(max(logits, {1})), axes);  // cancels: it has no gradient
  const Tensor shift = where(most == -std::numeric_limits<double>::infinity(), 0, most);
  const Tensor above = logits - unsqueeze(shift, 1);
  const Tensor total = distributed::psum(sum(exp(above), {1}), axes);
  const Local own = local_numbers(targets, static_cast<double>(logits.dim(1)), axes);
  const Tensor chosen = squeeze(gather(above, 1, unsqueeze(own.number, 1)), 1);
  const Tensor losses = log(total) - distributed::psum(where(own.here, chosen, 0), axes);
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace heddle::nn
