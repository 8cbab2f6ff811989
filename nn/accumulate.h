// Gradient accumulation: the gradient of a large batch from small ones, within one step.
//
//   const Tensor loss = nn::accumulate({.parts = 4}, [&](const Tensor& x, const Tensor& y) { return
//   cross_entropy(model(x), y); }, images, labels); optimizer.update();  optimizer.zero_grad();  eval_pending();
//
// Purpose: activations of one part at a time are in memory, and the update is that of the whole batch within rounding:
// the loss must be a mean over the examples of axis 0, and parts count by their size. All parts are one recorded step,
// so compile() replays it like any other. Batch norm sees the statistics of the parts. By hand it is backward() of each
// part's share of the loss: gradients add up until zero_grad(). Errors: ValueError for fewer than one part, or more
// parts than examples; ShapeError for tensors of different sizes along axis 0. Thread safety: none.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/nn/loss_scale.h"

namespace heddle::nn {

struct AccumulateOptions {
  int64_t parts = 1;                 // as equal as can be; the first ones are larger by one
  const LossScale* scale = nullptr;  // multiplies the loss for backward(), not the one that is returned
};

// Calls loss(part of each tensor) and backward() for each part; gives the loss of the whole batch, without a gradient.
// The number of examples is axis 0 of all `batch`.
Tensor accumulate(const AccumulateOptions& options, const Callable<Tensor(const std::vector<Tensor>& part)>& loss,
                  const std::vector<Tensor>& batch, Caller caller = Caller::current());

// The same for a loss that takes the tensors one by one.
template <std::same_as<Tensor>... Rest, std::invocable<const Tensor&, const Rest&...> Loss>
Tensor accumulate(const AccumulateOptions& options, const Loss& loss, TensorArg first, const Rest&... rest) {
  return accumulate(
      options,
      [&](const std::vector<Tensor>& part) {
        return [&]<size_t... i>(std::index_sequence<i...>) { return loss(part[i]...); }
        (std::index_sequence_for<Tensor, Rest...>());
      },
      std::vector<Tensor>{first.tensor, rest...}, first.caller);
}

}  // namespace heddle::nn
