#include "heddle/train/flat_list.h"

#include "heddle/core/functions/functions.h"

namespace heddle::train {

std::vector<Tensor> floating_buffers(const nn::Module& model) {
  std::vector<Tensor> found;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (is_float(buffer.dtype())) found.push_back(buffer);
  }
  return found;
}

Tensor flat(const Tensor& x) { return reshape(x.to(DType::f32), Shape{x.numel()}); }

Tensor ListReader::next(const Shape& shape, DType dtype) {
  const int64_t from = at_;
  at_ += shape.numel();
  return reshape(slice(list_, 0, {.start = from, .stop = at_}), shape).to(dtype);
}

}  // namespace heddle::train
