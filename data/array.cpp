#include "heddle/data/array.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"

namespace heddle::data {

void Array::require_whole(std::string_view who) const {
  uint64_t needed = 0;
  const bool fits = !__builtin_mul_overflow(static_cast<uint64_t>(shape.numel()), uint64_t{size_of(dtype)}, &needed);
  if (!fits || needed != bytes.size())
    throw ShapeError(fmt::format("[{}] {} {} takes {} bytes, the array has {}", who, shape.str(), name_of(dtype),
                                 fits ? std::to_string(needed) : "too many", bytes.size()));
}

namespace {

void check_alike(std::span<const Sample> samples) {
  const Sample& first = samples.front();
  for (size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].size() != first.size()) {
      throw ShapeError(fmt::format("[stack] example {} of the batch has {} arrays, the first has {}", i,
                                   samples[i].size(), first.size()));
    }
    for (size_t k = 0; k < first.size(); ++k) {
      const Array& a = samples[i][k];
      if (a.dtype == first[k].dtype && a.shape == first[k].shape) continue;
      throw ShapeError(
          fmt::format("[stack] array {} of example {} is {} {}, of the first {} {}; pad or crop to one size, or give "
                      "the loader a collate function",
                      k, i, a.shape.str(), name_of(a.dtype), first[k].shape.str(), name_of(first[k].dtype)));
    }
  }
}

}  // namespace

Sample stack(std::span<const Sample> samples) {
  if (samples.empty()) throw ShapeError("[stack] there are no examples");
  check_alike(samples);
  for (const Sample& sample : samples) {
    for (const Array& array : sample) array.require_whole("stack");
  }
  Sample batch;
  for (size_t k = 0; k < samples.front().size(); ++k) {
    const Array& first = samples.front()[k];
    Shape shape{static_cast<int64_t>(samples.size())};
    for (const int64_t d : first.shape) shape.push_back(d);
    Array all{first.dtype, shape, {}};
    all.bytes.reserve(first.bytes.size() * samples.size());
    for (const Sample& sample : samples)
      all.bytes.insert(all.bytes.end(), sample[k].bytes.begin(), sample[k].bytes.end());
    batch.push_back(std::move(all));
  }
  return batch;
}

std::vector<Tensor> to_tensors(const Sample& batch, DeviceContext& device, Caller caller) {
  const CallerScope scope(caller);
  std::vector<Tensor> tensors;
  for (const Array& a : batch) a.require_whole("to_tensors");
  for (const Array& a : batch)
    tensors.push_back(
        Tensor::from_batch_bytes(a.bytes.data(), static_cast<size_t>(a.shape.numel()), a.dtype, a.shape, &device));
  return tensors;
}

}  // namespace heddle::data
