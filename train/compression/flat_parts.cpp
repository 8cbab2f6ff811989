#include "heddle/train/compression/flat_parts.h"

#include "heddle/core/functions/functions.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape());
  return shapes;
}

Tensor joined(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(flat(tensor));
  return concat(parts, 0);
}

std::vector<Tensor> parted(const Tensor& list, const std::vector<Shape>& shapes) {
  ListReader reader(list);
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes) tensors.push_back(reader.next(shape, DType::f32));
  return tensors;
}

}  // namespace heddle::train
