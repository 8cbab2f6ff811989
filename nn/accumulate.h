// Gradient accumulation: the gradient of a large batch from small ones, within one step.
//
//   const Tensor loss = nn::accumulate({.parts = 4}, [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); }, images, labels);
//   optimizer.update();  optimizer.zero_grad();  eval_pending();
//
// Purpose: activations of one part at a time are in memory, and the update is that of the whole batch within rounding: the loss must be a mean over the
// examples of axis 0, and parts count by their size. All parts are one recorded step, so compile() replays it like any other. Batch norm sees the statistics
// of the parts. By hand it is backward() of each part's share of the loss: gradients add up until zero_grad().
// Errors: ValueError for fewer than one part, or more parts than examples; ShapeError for tensors of different sizes along axis 0.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/autograd.h"
#include "core/graph/functions.h"
#include "nn/loss_scale.h"

namespace heddle::nn {

struct AccumulateOptions {
  int64_t parts = 1;                  // as equal as can be; the first ones are larger by one
  const LossScale* scale = nullptr;   // multiplies the loss for backward(), not the one that is returned
};

namespace detail {
// The examples before each part, and all of them at the end.
std::vector<int64_t> part_bounds(int64_t parts, const std::vector<Tensor>& batch);
}  // namespace detail

// Calls loss(part of each tensor) and backward() for each part; gives the loss of the whole batch, without a gradient. The number of examples is axis 0 of all `batch`.
template <class Loss, class... Batch>
Tensor accumulate(const AccumulateOptions& options, const Loss& loss, const Batch&... batch) {
  const std::vector<int64_t> bounds = detail::part_bounds(options.parts, {batch...});
  Tensor total;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto part = [&](const Tensor& x) { return slice(x, 0, {.start = bounds[i], .stop = bounds[i + 1]}); };
    const double share = static_cast<double>(bounds[i + 1] - bounds[i]) / static_cast<double>(bounds.back());
    const Tensor one = loss(part(batch)...) * share;
    backward(options.scale != nullptr ? options.scale->scale(one) : one);
    total = total.defined() ? total + one.detach() : one.detach();
  }
  return total;
}

}  // namespace heddle::nn
