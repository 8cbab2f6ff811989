#include "heddle/nn/parameter_cut.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle::nn {
namespace {

// Runs of bytes that lie side by side in the part and in the whole.
class Runs {
 public:
  Runs(const Shape& whole, size_t element_bytes, const ParameterCut& cut, const CutPlace& at) {
    int64_t inner = static_cast<int64_t>(element_bytes);
    for (int axis = 0; axis < whole.rank(); ++axis)
      (axis < cut.axis ? count_ : inner) *= axis == cut.axis ? 1 : whole[axis];
    count_ *= cut.blocks;
    between_ = static_cast<size_t>(whole[cut.axis] / cut.blocks * inner);
    bytes_ = between_ / static_cast<size_t>(at.ranks);
    first_ = bytes_ * static_cast<size_t>(at.place);
  }
  // f(place in the part, place in the whole, bytes)
  template <class F>
  void each(const F& f) const {
    for (size_t run = 0; run < static_cast<size_t>(count_); ++run) f(run * bytes_, run * between_ + first_, bytes_);
  }

 private:
  int64_t count_ = 1;
  size_t between_ = 0, bytes_ = 0, first_ = 0;
};

}  // namespace

Shape shape_of_part(const Shape& whole, const ParameterCut& cut, int64_t ranks) {
  if (cut.whole()) return whole;
  const int64_t size = whole[cut.axis];
  if (size % (cut.blocks * ranks) != 0)
    throw ShapeError(fmt::format("[ParameterCut] {} ranks do not divide axis {} of {}{}", ranks, cut.axis, whole.str(),
                                 cut.blocks > 1 ? fmt::format(", in {} blocks", cut.blocks) : ""));
  return whole.with(cut.axis, size / ranks);
}

Shape shape_of_whole(const Shape& part, const ParameterCut& cut, int64_t ranks) {
  return cut.whole() ? part : part.with(cut.axis, part[cut.axis] * ranks);
}

Tensor part_of(const Tensor& whole, const ParameterCut& cut, const CutPlace& at, DeviceContext& device) {
  const Shape shape = shape_of_part(whole.shape(), cut, at.ranks);
  const std::vector<uint8_t> all = whole.detach().to_bytes();
  const auto elements = static_cast<size_t>(shape.numel());
  if (cut.whole()) return Tensor::from_bytes(all.data(), elements, whole.dtype(), shape, &device);
  std::vector<uint8_t> part(elements * size_of(whole.dtype()));
  Runs(whole.shape(), size_of(whole.dtype()), cut, at).each([&](size_t to, size_t from, size_t bytes) {
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(from), bytes, part.begin() + static_cast<std::ptrdiff_t>(to));
  });
  return Tensor::from_bytes(part.data(), elements, whole.dtype(), shape, &device);
}

void put_part(std::span<const uint8_t> part, std::span<uint8_t> whole, const Shape& shape, size_t element_bytes,
              const ParameterCut& cut, const CutPlace& at) {
  if (cut.whole()) {
    std::copy(part.begin(), part.end(), whole.begin());
    return;
  }
  Runs(shape, element_bytes, cut, at).each([&](size_t from, size_t to, size_t bytes) {
    std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                whole.begin() + static_cast<std::ptrdiff_t>(to));
  });
}

}  // namespace heddle::nn
