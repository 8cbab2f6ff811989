// Array: a dense array on the host, as examples and batches are made of.
//
// Invariants: bytes.size() is shape.numel() * size_of(dtype); row-major. The members are open, so whoever reads an
// array by its shape asks require_whole() first. Errors: ShapeError. Thread safety: a value.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::data {

struct Array {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  template <class T>
  static Array of(std::span<const T> values, const Shape& shape) {
    Array array{dtype_of<T>::value, shape, std::vector<std::byte>(values.size_bytes())};
    array.require_whole("array");
    if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), values.size_bytes());
    return array;
  }
  template <class T>
  static Array of(const std::vector<T>& values, const Shape& shape) {
    return of(std::span<const T>(values), shape);
  }
  template <class T>
  static Array scalar(T value) {
    return of(std::span<const T>(&value, 1), Shape{});
  }
  // ShapeError "[who] (2, 3) f32 takes 24 bytes, the array has 20" unless the invariant holds.
  void require_whole(std::string_view who) const;
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// The arrays of one example (an image, its label ...), or of a batch.
using Sample = std::vector<Array>;

// Arrays of equal dtype and shape behind one new leading dimension. ShapeError names the example and array that differ.
Sample stack(std::span<const Sample> samples);

// On the device, uploaded beside the running step where the device can.
std::vector<Tensor> to_tensors(const Sample& batch, DeviceContext& device, Caller caller = Caller::current());

}  // namespace heddle::data
