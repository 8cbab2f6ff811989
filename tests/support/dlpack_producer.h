// A DLPack tensor made by hand, over memory of its own, that counts how often it is given back.
// Thread safety: as its user's; the count is atomic.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "heddle/core/base/dlpack.h"

namespace heddle::test {

struct DlpackProducer {
  // f32 {count}, row-major, at a multiple of 4096 and `shift` bytes.
  explicit DlpackProducer(const std::vector<float>& numbers, size_t shift = 0)
      : bytes(numbers.size() * sizeof(float) + shift + 8192), shape{static_cast<int64_t>(numbers.size())} {
    const auto address = reinterpret_cast<uintptr_t>(bytes.data());
    values = reinterpret_cast<float*>(bytes.data() + (4096 - address % 4096) + shift);
    std::copy(numbers.begin(), numbers.end(), values);
    managed.tensor.data = old.tensor.data = values;
    managed.context = old.context = this;
    managed.deleter = [](DlManagedTensorVersioned* m) { ++static_cast<DlpackProducer*>(m->context)->given_back; };
    old.deleter = [](DlManagedTensor* m) { ++static_cast<DlpackProducer*>(m->context)->given_back; };
    set(shape, {});
  }
  DlpackProducer(const DlpackProducer&) = delete;
  DlpackProducer& operator=(const DlpackProducer&) = delete;

  // No strides: null.
  void set(std::vector<int64_t> dims, std::vector<int64_t> steps, uint64_t byte_offset = 0) {
    shape = std::move(dims);
    strides = std::move(steps);
    for (DlTensor* tensor : {&managed.tensor, &old.tensor}) {
      tensor->ndim = static_cast<int32_t>(shape.size());
      tensor->shape = shape.data();
      tensor->strides = strides.empty() ? nullptr : strides.data();
      tensor->byte_offset = byte_offset;
    }
  }

  std::vector<uint8_t> bytes;
  float* values = nullptr;
  std::vector<int64_t> shape, strides;
  DlManagedTensorVersioned managed;
  DlManagedTensor old;
  std::atomic<int> given_back = 0;
};

// 0, 1, 2 ...
inline std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace heddle::test
