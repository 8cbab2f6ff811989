// The order in which groups are lowered, before core/schedule/kernel_order.h looks at memory.
// Thread safety: pure function.
#pragma once

#include <set>
#include <vector>

namespace heddle {

// Depth first from the groups that nobody waits for, the longest way first. before[g]: groups that g waits for;
// recorded_last[g]: the last of its vertices. Groups on a cycle are left out.
std::vector<int> order_by_need(const std::vector<std::set<int>>& before, const std::vector<int>& recorded_last);

}  // namespace heddle
