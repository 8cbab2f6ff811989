// View: how an array of some shape lies in a buffer: an offset and one stride per dimension, in elements.
//
// Purpose: movement ops (reshape, permute, expand, slice, flip) compose views; data is copied only where no view
// exists. Invariants: strides may be 0 (broadcast) or negative (flip, negative step); every index of a non-empty
// view maps into [0, extent of the buffer). Thread safety: plain value.
#pragma once

#include <optional>

#include "heddle/core/base/shape.h"

namespace heddle {

struct View {
  int64_t offset = 0;
  Shape shape;
  std::array<int64_t, Shape::max_rank> strides{};

  // Dense row-major view of `shape` at offset 0.
  static View dense(const Shape& shape);

  bool is_dense() const;  // offset 0, row-major, no gaps (dimensions of size 1 do not count)
  // Smallest and largest element index reached; {0, -1} when empty.
  std::pair<int64_t, int64_t> extent() const;
  int64_t index(std::span<const int64_t> position) const;

  View permute(std::span<const int> order) const;
  // Dimensions of size 1 grow to `shape`; same rank.
  View expand(const Shape& shape) const;
  // start, count and step per dimension, already normalised: position i of dimension d reads start[d] + i*step[d].
  View slice(std::span<const int64_t> start, std::span<const int64_t> step, const Shape& counts) const;
  View flip(std::span<const int> axes) const;
  // The view of the same elements in another shape, or nothing when that needs a copy.
  std::optional<View> reshape(const Shape& shape) const;

  bool operator==(const View& other) const;
  std::string str() const;  // "(2, 3) strides (3, 1) offset 0"
};

}  // namespace heddle
