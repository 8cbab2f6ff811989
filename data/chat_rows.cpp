#include "heddle/data/chat_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "heddle/core/base/error.h"

namespace heddle::data {
namespace {

// Some tokens of an example, and those that follow each.
struct Stretch {
  const ChatTokens* of;
  size_t begin, end;
  int64_t size() const { return static_cast<int64_t>(end - begin); }
  int32_t target(size_t i) const {
    return i + 1 < of->tokens.size() && of->trained[i + 1] != 0 ? of->tokens[i + 1] : ignored_target;
  }
  int64_t trained() const {
    int64_t count = 0;
    for (size_t i = begin; i < end; ++i) count += target(i) != ignored_target;
    return count;
  }
};

class Rows {
 public:
  explicit Rows(const ChatRowsOptions& options) : o_(options) {}

  void add(const ChatTokens& example) {
    const size_t length = static_cast<size_t>(o_.length), size = example.tokens.size();
    if (example.trained.size() != size)
      throw ValueError(fmt::format("[chat_rows] example {} has {} tokens and {} marks, expected as many", number_, size,
                                   example.trained.size()));
    ++number_;
    const bool is_long = size > length;
    if (is_long && !example.is_text && o_.drop_long) {
      ++made_.dropped;
      return;
    }
    const size_t before = stretches_.size();
    for (size_t at = 0; at < size; at += length) {
      keep({&example, at, std::min(at + length, size)});
      if (!example.is_text) break;
    }
    const bool is_kept = stretches_.size() > before;
    made_.dropped += !is_kept;
    made_.examples += is_kept;
    made_.cut += is_kept && is_long && !example.is_text;
  }

  ChatRows finish() {
    if (stretches_.empty())
      throw ValueError(
          fmt::format("[chat_rows] none of {} examples has a token to learn within {}: expected longer "
                      "rows or shorter questions",
                      number_, o_.length));
    place();
    write();
    return std::move(made_);
  }

 private:
  void keep(const Stretch& stretch) {
    const int64_t trained = stretch.trained();
    if (trained == 0) return;
    made_.tokens += stretch.size();
    made_.trained += trained;
    stretches_.push_back(stretch);
  }

  // rows_: the stretches of each.
  void place() {
    if (!o_.pack) {
      for (size_t i = 0; i < stretches_.size(); ++i) rows_.push_back({i});
      return;
    }
    std::vector<size_t> order(stretches_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return stretches_[a].size() > stretches_[b].size(); });
    std::multimap<int64_t, size_t> room;  // what is left in rows
    for (const size_t i : order) {
      const int64_t size = stretches_[i].size();
      const auto found = room.lower_bound(size);
      const size_t row = found == room.end() ? rows_.size() : found->second;
      const int64_t left = (found == room.end() ? o_.length : found->first) - size;
      if (found == room.end())
        rows_.emplace_back();
      else
        room.erase(found);
      rows_[row].push_back(i);
      if (left > 1) room.emplace(left, row);
    }
  }

  void write() {
    const size_t length = static_cast<size_t>(o_.length);
    if (rows_.size() > std::numeric_limits<size_t>::max() / 16 / length)
      throw ValueError(fmt::format("[chat_rows] {} rows of {} tokens are too many", rows_.size(), o_.length));
    std::vector<int32_t> tokens(rows_.size() * length, o_.padding), targets(tokens.size(), ignored_target),
        segments(tokens.size(), -1);
    for (size_t row = 0; row < rows_.size(); ++row) {
      size_t at = row * length;
      for (size_t number = 0; number < rows_[row].size(); ++number) {
        const Stretch& stretch = stretches_[rows_[row][number]];
        for (size_t i = stretch.begin; i < stretch.end; ++i, ++at) {
          tokens[at] = stretch.of->tokens[i];
          targets[at] = stretch.target(i);
          segments[at] = static_cast<int32_t>(number);
        }
      }
    }
    made_.rows = static_cast<int64_t>(rows_.size());
    const Shape shape{made_.rows, o_.length};
    made_.dataset = from_arrays({Array::of(tokens, shape), Array::of(targets, shape), Array::of(segments, shape)});
  }

  const ChatRowsOptions& o_;
  ChatRows made_;
  int64_t number_ = 0;
  std::vector<Stretch> stretches_;
  std::vector<std::vector<size_t>> rows_;
};

}  // namespace

ChatRows chat_rows(const std::vector<ChatTokens>& examples, const ChatRowsOptions& options) {
  constexpr int64_t most = 1 << 24;
  if (options.length < 2 || options.length > most)
    throw ValueError(fmt::format("[chat_rows] rows of {} tokens, expected 2 to {}", options.length, most));
  if (options.padding < 0)
    throw ValueError(fmt::format("[chat_rows] the padding is token {}, expected at least 0", options.padding));
  Rows rows(options);
  for (const ChatTokens& example : examples) rows.add(example);
  return rows.finish();
}

}  // namespace heddle::data
