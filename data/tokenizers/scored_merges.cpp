#include "heddle/data/tokenizers/scored_merges.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "heddle/core/base/utf8.h"

namespace heddle::data::detail {

std::vector<PairModel::Merge> merges_by_score(const std::vector<std::string>& names, std::span<const double> scores,
                                              const std::vector<bool>& mergeable) {
  std::unordered_map<std::string_view, int32_t> token_of;
  std::vector<size_t> order;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!mergeable[i] || !token_of.emplace(names[i], static_cast<int32_t>(i)).second) continue;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<PairModel::Merge> merges;
  for (const size_t i : order) {
    const std::string_view name = names[i];
    for (size_t at = character_at(name, 0).bytes; at < name.size(); at += character_at(name, at).bytes) {
      const auto left = token_of.find(name.substr(0, at)), right = token_of.find(name.substr(at));
      if (left != token_of.end() && right != token_of.end())
        merges.push_back({left->second, right->second, static_cast<int32_t>(i)});
    }
  }
  return merges;
}

}  // namespace heddle::data::detail
