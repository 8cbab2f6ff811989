// Tensors as one list, and back. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::train {

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors);
// f32 (n): the elements of all, one tensor behind the other.
Tensor joined(const std::vector<Tensor>& tensors);
// f32: tensors of these shapes, from the beginning of the list on.
std::vector<Tensor> parted(const Tensor& list, const std::vector<Shape>& shapes);

// A tensor of zeros that stays where it is.
Tensor kept_zeros(const Shape& shape, DeviceContext& device);

}  // namespace heddle::train
