#include "heddle/nn/accumulate.h"

#include <fmt/format.h>

#include "heddle/core/functions/functions.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

// The examples before each part, and all of them at the end.
std::vector<int64_t> part_bounds(int64_t parts, const std::vector<Tensor>& batch) {
  if (batch.empty() || batch[0].rank() == 0)
    throw ShapeError("[accumulate] the batch needs tensors with an axis of examples");
  const int64_t examples = batch[0].dim(0);
  for (const Tensor& tensor : batch) {
    if (tensor.rank() > 0 && tensor.dim(0) == examples) continue;
    throw ShapeError(
        fmt::format("[accumulate] a tensor of the batch is {}, but another one has {} examples along axis 0",
                    tensor.shape().str(), examples));
  }
  if (parts < 1 || parts > examples)
    throw ValueError(
        fmt::format("[accumulate] {} parts of {} examples; there must be at least one part, and an example in each",
                    parts, examples));
  checked_size("accumulate", "the number of parts", parts, most_rows);
  std::vector<int64_t> bounds{0};
  for (int64_t i = 0; i < parts; ++i)
    bounds.push_back(bounds.back() + examples / parts + (i < examples % parts ? 1 : 0));
  return bounds;
}

}  // namespace

Tensor accumulate(const AccumulateOptions& options, const Callable<Tensor(const std::vector<Tensor>& part)>& loss,
                  const std::vector<Tensor>& batch, Caller caller) {
  const CallerScope scope(caller);
  const std::vector<int64_t> bounds = part_bounds(options.parts, batch);
  Tensor total;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    std::vector<Tensor> part;
    for (const Tensor& x : batch) part.push_back(slice(x, 0, {.start = bounds[i], .stop = bounds[i + 1]}));
    const double share = static_cast<double>(bounds[i + 1] - bounds[i]) / static_cast<double>(bounds.back());
    const Tensor one = loss(part) * share;
    backward(options.scale != nullptr ? options.scale->scale(one) : one);
    total = total.defined() ? total + one.detach() : one.detach();
  }
  return total;
}

}  // namespace heddle::nn
