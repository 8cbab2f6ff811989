// Options of convolutions and pools, a number for each spatial dimension. Internal to core/functions/nn. Thread safety:
// pure.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <vector>

#include "heddle/core/base/error.h"

namespace heddle::build {

// `list` for `rank` dimensions: nothing is `fallback`, one number counts for all; ValueError unless each is in
// [least, 2^31).
inline std::vector<int64_t> spread(const char* op, const char* what, const std::vector<int64_t>& list, int rank,
                                   int64_t fallback, int64_t least) {
  std::vector<int64_t> result = list;
  if (result.empty()) result.assign(1, fallback);
  if (result.size() == 1) result.assign(static_cast<size_t>(rank), result[0]);
  if (result.size() != static_cast<size_t>(rank)) {
    throw ValueError(fmt::format("[{}] {} has {} entries ({}); expected one, or {} (one for each spatial dimension)",
                                 op, what, list.size(), fmt::join(list, ", "), rank));
  }
  for (const int64_t n : result) {
    if (n < least || n > INT32_MAX)
      throw ValueError(fmt::format("[{}] {} {} is not in [{}, 2^31)", op, what, n, least));
  }
  return result;
}

}  // namespace heddle::build
