// Visits the elements of a view.
//
// Thread safety: a pure function.
#pragma once

#include <array>
#include <cstdint>

#include "heddle/core/base/view.h"

namespace heddle {

// Calls f(element index in the view's buffer) in row-major order of the view.
template <class F>
void walk(const View& view, F&& f) {
  std::array<int64_t, Shape::max_rank> position{};
  const Shape& shape = view.shape;
  int64_t at = view.offset;
  for (int64_t n = shape.numel(); n > 0; --n) {
    f(at);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      at += view.strides[a];
      if (++position[a] < shape[axis]) break;
      at -= view.strides[a] * shape[axis];
      position[a] = 0;
    }
  }
}

}  // namespace heddle
