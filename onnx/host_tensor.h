// HostTensor: a tensor of a model's file, or one that was computed from its shapes, on the host.
//
// Invariants: bytes hold shape.numel() elements of the type, row-major, least byte first, as in a file, but those below
// 8 bits in a byte each; texts have no bytes. Copies share the bytes. Errors: ValueError. Thread safety: a value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/shape.h"
#include "heddle/onnx/types.h"

namespace heddle::onnx {

struct HostTensor {
  Type type = Type::none;
  Shape shape;
  std::shared_ptr<const std::string> bytes;

  static HostTensor of_ints(Type type, const Shape& shape, const std::vector<int64_t>& values);  // wrapped to the type
  static HostTensor of_reals(Type type, const Shape& shape, const std::vector<double>& values);  // rounded to the type
  // Any held type; floats are truncated toward zero.
  std::vector<int64_t> ints() const;
  std::vector<double> reals() const;
  // What a tensor of storage(type) is made of: `bytes` themselves where the type has a dtype of its own.
  std::string stored() const;
  // The reverse, of what Tensor::to_bytes() gave.
  static HostTensor from_stored(Type type, const Shape& shape, const std::vector<uint8_t>& stored);
  // Whether all elements are one number that a double holds exactly.
  bool uniform() const;
  // A tensor on the device: a constant without memory where all elements are one number.
  Tensor upload(DeviceContext& device) const;
};

}  // namespace heddle::onnx
