#include "heddle/core/schedule/group_order.h"

#include <algorithm>

namespace heddle {
namespace {

// Of each group, the length of the longest way to it; shorter than right for groups on a cycle, which order_groups()
// reports.
std::vector<int> depths(const std::vector<std::set<int>>& before) {
  const size_t count = before.size();
  std::vector<std::vector<int>> after(count);
  std::vector<size_t> waiting(count);
  std::vector<int> depth(count, 0), ready;
  for (size_t g = 0; g < count; ++g) {
    waiting[g] = before[g].size();
    for (int b : before[g]) after[static_cast<size_t>(b)].push_back(static_cast<int>(g));
    if (waiting[g] == 0) ready.push_back(static_cast<int>(g));
  }
  while (!ready.empty()) {
    const int g = ready.back();
    ready.pop_back();
    for (int next : after[static_cast<size_t>(g)]) {
      depth[static_cast<size_t>(next)] = std::max(depth[static_cast<size_t>(next)], depth[static_cast<size_t>(g)] + 1);
      if (--waiting[static_cast<size_t>(next)] == 0) ready.push_back(next);
    }
  }
  return depth;
}

}  // namespace

// Depth first from the groups that nobody waits for, as recorded; what a group needs is computed right before it, the
// longest way first: the gradient that came through all layers before the activation that is computed again for it.
std::vector<int> order_by_need(const std::vector<std::set<int>>& before, const std::vector<int>& recorded_last) {
  const int count = static_cast<int>(before.size());
  const std::vector<int> depth = depths(before);
  const auto recorded = [&](int g) { return recorded_last[static_cast<size_t>(g)]; };
  std::vector<std::vector<int>> needs(count);
  std::vector<bool> is_needed(count, false);
  for (int g = 0; g < count; ++g) {
    needs[g].assign(before[g].begin(), before[g].end());
    std::sort(needs[g].begin(), needs[g].end(),
              [&](int a, int b) { return std::pair(-depth[a], recorded(a)) < std::pair(-depth[b], recorded(b)); });
    for (int needed : needs[g]) is_needed[needed] = true;
  }
  std::vector<int> stack, order;
  std::vector<bool> seen(count, false);
  std::vector<size_t> next(count, 0);
  std::set<std::pair<int, int>> roots;
  for (int g = 0; g < count; ++g) {
    if (!is_needed[g]) roots.insert({recorded(g), g});
  }
  for (const auto& [id, root] : roots) {
    stack.push_back(root);
    seen[root] = true;
    while (!stack.empty()) {
      const int g = stack.back();
      if (next[g] == needs[g].size()) {
        order.push_back(g);
        stack.pop_back();
      } else if (const int needed = needs[g][next[g]++]; !seen[needed]) {
        seen[needed] = true;
        stack.push_back(needed);
      }
    }
  }
  return order;
}

}  // namespace heddle
