// The index of the element with a row-major number.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/base/shape.h"

namespace heddle {

inline std::vector<int64_t> unravel(const Shape& shape, int64_t number) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int d = shape.rank(); d-- > 0; number /= shape[d]) index[static_cast<size_t>(d)] = number % shape[d];
  return index;
}

}  // namespace heddle
