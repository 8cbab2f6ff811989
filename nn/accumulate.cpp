#include "nn/accumulate.h"

#include <fmt/format.h>

namespace heddle::nn::detail {

std::vector<int64_t> part_bounds(int64_t parts, const std::vector<Tensor>& batch) {
  if (batch.empty() || batch[0].rank() == 0) throw ShapeError("[accumulate] the batch needs tensors with an axis of examples");
  const int64_t examples = batch[0].dim(0);
  for (const Tensor& tensor : batch) {
    if (tensor.rank() > 0 && tensor.dim(0) == examples) continue;
    throw ShapeError(fmt::format("[accumulate] a tensor of the batch is {}, but another one has {} examples along axis 0", tensor.shape().str(), examples));
  }
  if (parts < 1 || parts > examples) throw ValueError(fmt::format("[accumulate] {} parts of {} examples; there must be at least one part, and an example in each", parts, examples));
  std::vector<int64_t> bounds{0};
  for (int64_t i = 0; i < parts; ++i) bounds.push_back(bounds.back() + examples / parts + (i < examples % parts ? 1 : 0));
  return bounds;
}

}  // namespace heddle::nn::detail
