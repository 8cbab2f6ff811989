#include "heddle/distributed/forecast/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "heddle/core/base/error.h"

namespace heddle::distributed {

std::vector<size_t> partition_blocks(const std::vector<double>& costs, size_t places) {
  const size_t count = costs.size();
  if (places < 1 || places > count)
    throw ValueError(
        fmt::format("[plan] {} places of a pipeline for {} blocks of layers; each needs at least one", places, count));
  std::vector<double> sums(count + 1);
  for (size_t i = 0; i < count; ++i) sums[i + 1] = sums[i] + costs[i];
  constexpr double infinite = std::numeric_limits<double>::infinity();
  // least[k][n]: the largest sum of the first n blocks on k places; from[k][n]: where the last of them begins.
  std::vector<std::vector<double>> least(places + 1, std::vector<double>(count + 1, infinite));
  std::vector<std::vector<size_t>> from(places + 1, std::vector<size_t>(count + 1));
  least[0][0] = 0;
  for (size_t k = 1; k <= places; ++k) {
    for (size_t n = k; n <= count; ++n) {
      for (size_t i = n; i-- > k - 1;) {
        const double last = sums[n] - sums[i], largest = std::max(least[k - 1][i], last);
        if (largest < least[k][n]) {
          least[k][n] = largest;
          from[k][n] = i;
        }
        if (last > least[k][n]) break;  // it only grows
      }
    }
  }
  std::vector<size_t> begins(places + 1, count);
  for (size_t k = places; k > 0; --k) begins[k - 1] = from[k][begins[k]];
  return begins;
}

}  // namespace heddle::distributed
