// Movement: views where they exist.
//
// Axes count from the end when negative. Errors: ShapeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor reshape(const Tensor& x, const Shape& shape, Caller caller = Caller::current());          // no -1
Tensor reshape(const Tensor& x, std::vector<int64_t> shape, Caller caller = Caller::current());  // one -1 is inferred
inline Tensor reshape(const Tensor& x, std::initializer_list<int64_t> shape, Caller caller = Caller::current()) {
  return reshape(x, std::vector<int64_t>(shape), caller);
}
Tensor permute(const Tensor& x, std::vector<int> order, Caller caller = Caller::current());
Tensor transpose(const Tensor& x, int axis0 = -2, int axis1 = -1, Caller caller = Caller::current());
Tensor expand(const Tensor& x, const Shape& shape, Caller caller = Caller::current());  // broadcast to shape
Tensor squeeze(const Tensor& x, std::optional<int> axis = {}, Caller caller = Caller::current());
Tensor unsqueeze(const Tensor& x, int axis, Caller caller = Caller::current());
Tensor slice(const Tensor& x, int axis, Slice range, Caller caller = Caller::current());
Tensor slice(const Tensor& x, std::span<const Slice> ranges,
             Caller caller = Caller::current());  // one per leading axis
Tensor flip(const Tensor& x, std::vector<int> axes, Caller caller = Caller::current());
// (before, after) per axis, counted from the first; negative amounts are refused.
Tensor pad(const Tensor& x, std::vector<std::pair<int64_t, int64_t>> amounts, double value = 0,
           Caller caller = Caller::current());
Tensor concat(std::span<const Tensor> parts, int axis, Caller caller = Caller::current());
inline Tensor concat(std::initializer_list<Tensor> parts, int axis, Caller caller = Caller::current()) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, caller);
}
std::vector<Tensor> split(const Tensor& x, std::vector<int64_t> sizes, int axis, Caller caller = Caller::current());

}  // namespace heddle
