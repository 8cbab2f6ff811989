#include "heddle/core/contract/grid.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"

namespace heddle {

std::array<uint32_t, 3> fold_groups(int64_t groups, const Caps& caps) {
  const int64_t limit = caps.max_groups[0];
  if (groups <= limit) return {static_cast<uint32_t>(groups), 1, 1};
  const int64_t y = ceil_div(groups, limit);
  if (y > caps.max_groups[1])
    throw LimitError(fmt::format("[launch] {} groups exceed the device's grid of {} x {} (max_groups)", groups, limit,
                                 caps.max_groups[1]));
  return {static_cast<uint32_t>(ceil_div(groups, y)), static_cast<uint32_t>(y), 1};
}

}  // namespace heddle
