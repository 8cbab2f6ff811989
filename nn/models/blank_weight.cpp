#include "heddle/nn/models/blank_weight.h"

#include <cstdint>

#include "heddle/core/graph/node.h"

namespace heddle::nn {

Tensor blank_weight(const Shape& shape, DType dtype, DeviceContext& device) {
  const uint64_t bytes = static_cast<uint64_t>(shape.numel()) * size_of(dtype);
  return Tensor(make_leaf(device.allocate(bytes), View::dense(shape), dtype));
}

}  // namespace heddle::nn
