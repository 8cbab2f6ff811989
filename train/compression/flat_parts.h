// Tensors as one list, and back. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::train {

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors);
// f32 (n): the elements of all, one tensor behind the other.
Tensor joined(const std::vector<Tensor>& tensors);
// f32: tensors of these shapes, from the beginning of the list on.
std::vector<Tensor> parted(const Tensor& list, const std::vector<Shape>& shapes);

}  // namespace heddle::train
