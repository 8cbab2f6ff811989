#include "heddle/data/tokenizers/scored_merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "heddle/core/base/shortened.h"
#include "heddle/core/base/utf8.h"

namespace heddle::data::detail {
namespace {

using Merges = std::vector<PairModel::Merge>;

bool before(const PairModel::Merge& a, const PairModel::Merge& b) {
  return std::tie(a.left, a.right) < std::tie(b.left, b.right);
}

// Of `all` the first that `some` has not; null where it has all.
const PairModel::Merge* missing(Merges& all, Merges& some) {
  std::ranges::sort(all, before);
  std::ranges::sort(some, before);
  const auto is_missing = [&](const PairModel::Merge& merge) {
    return !std::binary_search(some.begin(), some.end(), merge, before);
  };
  const auto found = std::ranges::find_if(all, is_missing);
  return found == all.end() ? nullptr : &*found;
}

// "----" of "-".
bool is_run(std::string_view name, std::string_view of) {
  for (; name.starts_with(of); name.remove_prefix(of.size()))
    ;
  return name.empty();
}

// Scores as they are given to tokens in the order of their first merges.
class Scores {
 public:
  Scores(const std::vector<std::string>& names, std::vector<float>& scores) : names_(names), scores_(scores) {
    scores_.assign(names.size(), none);
  }

  // Whether there is one; `token` is what the next merge makes.
  bool add(int32_t token) {
    const bool is_new = of(token) == none, apart = !is_new && made_.back() != token && !tie(token);
    if (is_new) of(token) = next_--;
    made_.push_back(token);
    return !apart;
  }
  void finish(const std::vector<bool>& mergeable) {
    for (size_t i = 0; i < scores_.size(); ++i) {
      if (scores_[i] == none) scores_[i] = mergeable[i] ? next_ : 0;
    }
  }

 private:
  static constexpr float none = 1;
  float& of(int32_t token) { return scores_[static_cast<size_t>(token)]; }
  // Runs of one character, as Llama 2 has them of spaces, have one score, and the order of their merges is that of
  // lengths: all that was made since `token` gets its score, where all are such runs.
  bool tie(int32_t token) {
    const std::string_view name = names_[static_cast<size_t>(token)];
    const std::string_view character = name.substr(0, character_at(name, 0).bytes);
    const auto first = std::find(made_.rbegin(), made_.rend(), token).base() - 1;
    const auto is_tied = [&](int32_t other) { return is_run(names_[static_cast<size_t>(other)], character); };
    if (!std::all_of(first, made_.end(), is_tied)) return false;
    for (auto other = first; other != made_.end(); ++other) of(*other) = of(token);
    return true;
  }

  const std::vector<std::string>& names_;
  std::vector<float>& scores_;
  std::vector<int32_t> made_;
  float next_ = 0;
};

}  // namespace

Merges merges_by_score(const std::vector<std::string>& names, std::span<const double> scores,
                       const std::vector<bool>& mergeable) {
  std::unordered_map<std::string_view, int32_t> token_of;
  std::vector<size_t> order;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!mergeable[i] || !token_of.emplace(names[i], static_cast<int32_t>(i)).second) continue;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  Merges merges;
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

std::string scores_of_merges(const std::vector<std::string>& names, const Merges& merges,
                             const std::vector<bool>& mergeable, std::vector<float>& scores) {
  const auto takes_part = [&](int32_t token) { return mergeable[static_cast<size_t>(token)]; };
  const auto name = [&](int32_t token) { return shortened(names[static_cast<size_t>(token)], 40); };
  Merges own;
  Scores given(names, scores);
  for (const PairModel::Merge& merge : merges) {
    if (!takes_part(merge.left) || !takes_part(merge.right) || !takes_part(merge.result)) continue;
    if (!given.add(merge.result)) return fmt::format("merges to '{}' stand at ranks apart", name(merge.result));
    own.push_back(merge);
  }
  given.finish(mergeable);
  Merges made = merges_by_score(names, std::vector<double>(scores.begin(), scores.end()), mergeable);
  const PairModel::Merge* other = missing(made, own);
  return other == nullptr ? "" : fmt::format("no merge joins '{}' and '{}'", name(other->left), name(other->right));
}

}  // namespace heddle::data::detail
