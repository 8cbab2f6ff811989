#include "heddle/data/preference_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle::data {
namespace {

constexpr int32_t padding = 0;

// One answer behind its question, as long as a row.
struct Row {
  std::vector<int32_t> tokens, targets;
  int64_t trained = 0;
};

Row row_of(const ChatTokens& answer, size_t length) {
  Row row{std::vector<int32_t>(length, padding), std::vector<int32_t>(length, ignored_target)};
  const size_t count = std::min(length, answer.tokens.size());
  for (size_t i = 0; i < count; ++i) {
    row.tokens[i] = answer.tokens[i];
    if (i + 1 == answer.tokens.size() || answer.trained[i + 1] == 0) continue;
    row.targets[i] = answer.tokens[i + 1];
    ++row.trained;
  }
  return row;
}

void check(size_t chosen, size_t rejected, int64_t length) {
  constexpr int64_t most = 1 << 24;
  if (length < 2 || length > most)
    throw ValueError(fmt::format("[preference_rows] rows of {} tokens, expected 2 to {}", length, most));
  if (chosen != rejected)
    throw ValueError(
        fmt::format("[preference_rows] {} chosen and {} rejected answers, expected as many", chosen, rejected));
}

}  // namespace

PreferenceRows preference_rows(const std::vector<ChatTokens>& chosen, const std::vector<ChatTokens>& rejected,
                               const PreferenceRowsOptions& o) {
  check(chosen.size(), rejected.size(), o.length);
  const auto length = static_cast<size_t>(o.length);
  PreferenceRows made;
  std::vector<int32_t> tokens, targets;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const bool is_long = std::max(chosen[i].tokens.size(), rejected[i].tokens.size()) > length;
    const Row a = row_of(chosen[i], length), b = row_of(rejected[i], length);
    const bool says_nothing = a.trained == 0 || b.trained == 0 || (a.tokens == b.tokens && a.targets == b.targets);
    if (says_nothing || (is_long && o.drop_long)) {
      ++made.dropped;
      continue;
    }
    for (const Row& row : {a, b}) {
      tokens.insert(tokens.end(), row.tokens.begin(), row.tokens.end());
      targets.insert(targets.end(), row.targets.begin(), row.targets.end());
    }
    ++made.pairs;
    made.cut += is_long;
    made.trained += a.trained + b.trained;
  }
  if (made.pairs == 0)
    throw ValueError(
        fmt::format("[preference_rows] none of {} pairs has two answers within {}: expected longer rows or "
                    "shorter questions",
                    chosen.size(), o.length));
  const Shape shape{made.pairs, 2, o.length};
  made.dataset = from_arrays({Array::of(tokens, shape), Array::of(targets, shape)});
  return made;
}

}  // namespace heddle::data
