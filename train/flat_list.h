// Tensors as one list of f32, for the other ranks. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/nn/module.h"

namespace heddle::train {

// Buffers of floats, such as the running statistics of batch norms.
std::vector<Tensor> floating_buffers(const nn::Module& model);

// f32 (n): the elements in row-major order; each times the weight.
Tensor flat(const Tensor& x);
Tensor weighted(const Tensor& x, double weight);
// What travels besides gradients goes behind the parts: buffers of floats and scalars, of rank 0, times the weight.
void append_rest(std::vector<Tensor>& parts, const nn::Module& model, const std::vector<Tensor>& scalars,
                 double weight);

// Values of a list, from its beginning on, or of the sum of two.
class ListReader {
 public:
  explicit ListReader(const Tensor& list, const Tensor* added = nullptr) : list_(list), added_(added) {}
  Tensor next(const Shape& shape, DType dtype);

 private:
  const Tensor& list_;
  const Tensor* added_;
  int64_t at_ = 0;
};

// Buffers become the next values of the list; gives so many scalars behind them.
std::vector<Tensor> read_rest(ListReader& reader, const nn::Module& model, size_t scalars);

// f32 zeros that stay where they are: uploaded, not recorded, so that the first step has the structure of later ones.
Tensor kept_zeros(const Shape& shape, DeviceContext& device);

// A list's values on the host, and back: f32 (n). Waits for the device.
std::vector<float> floats_of(const Tensor& list);
Tensor uploaded(const std::vector<float>& values, DeviceContext& device);

}  // namespace heddle::train
