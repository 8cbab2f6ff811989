// The middle of some numbers. Thread safety: pure.
#pragma once

#include <algorithm>
#include <vector>

namespace heddle {

// Of an even number of them the larger of the two in the middle; of none 0.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace heddle
