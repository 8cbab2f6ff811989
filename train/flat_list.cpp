#include "heddle/train/flat_list.h"

#include <cstring>

#include "heddle/core/device/adopted.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"

namespace heddle::train {

std::vector<Tensor> floating_buffers(const nn::Module& model) {
  std::vector<Tensor> found;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (is_float(buffer.dtype())) found.push_back(buffer);
  }
  return found;
}

Tensor flat(const Tensor& x) { return reshape(x.to(DType::f32), Shape{x.numel()}); }

Tensor weighted(const Tensor& x, double weight) { return weight == 1 ? flat(x) : flat(x) * weight; }

void append_rest(std::vector<Tensor>& parts, const nn::Module& model, const std::vector<Tensor>& scalars,
                 double weight) {
  for (const Tensor& buffer : floating_buffers(model)) parts.push_back(weighted(buffer, weight));
  for (const Tensor& scalar : scalars) parts.push_back(weighted(scalar, weight));
}

std::vector<Tensor> read_rest(ListReader& reader, const nn::Module& model, size_t scalars) {
  for (Tensor buffer : floating_buffers(model)) buffer.assign(reader.next(buffer.shape(), buffer.dtype()));
  std::vector<Tensor> found;
  for (size_t i = 0; i < scalars; ++i) found.push_back(reader.next(Shape(), DType::f32));
  return found;
}

Tensor kept_zeros(const Shape& shape, DeviceContext& device) {
  return Tensor::from_vector(std::vector<float>(static_cast<size_t>(shape.numel())), shape, &device);
}

// Copied where it lies, so that what was enqueued since is not waited for.
std::vector<float> floats_of(const Tensor& list) {
  const Node& node = *list.node();
  if (node.storage && node.dtype == DType::f32 && node.view.is_dense()) {
    if (const auto* const first = static_cast<const float*>(host_value(*node.storage)))
      return {first, first + node.shape.numel()};
  }
  const std::vector<uint8_t> bytes = list.to_bytes();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Tensor uploaded(const std::vector<float>& values, DeviceContext& device) {
  return Tensor::from_vector(values, Shape{static_cast<int64_t>(values.size())}, &device);
}

Tensor ListReader::next(const Shape& shape, DType dtype) {
  const Slice here{.start = at_, .stop = at_ + shape.numel()};
  at_ += shape.numel();
  Tensor values = slice(list_, 0, here);
  if (added_ != nullptr) values = values + slice(*added_, 0, here);
  return reshape(values, shape).to(dtype);
}

}  // namespace heddle::train
