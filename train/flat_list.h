// Tensors as one list of f32, for the other ranks. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/nn/module.h"

namespace heddle::train {

// Buffers of floats, such as the running statistics of batch norms.
std::vector<Tensor> floating_buffers(const nn::Module& model);

// f32 (n): the elements in row-major order.
Tensor flat(const Tensor& x);

// Values of a list, from its beginning on.
class ListReader {
 public:
  explicit ListReader(const Tensor& list) : list_(list) {}
  Tensor next(const Shape& shape, DType dtype);

 private:
  const Tensor& list_;
  int64_t at_ = 0;
};

}  // namespace heddle::train
