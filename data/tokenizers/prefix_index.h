// Which entries of a list a text begins with.
//
// Invariants: entries are not empty; of equal ones the first is kept. Work is the length of the longest entry that the
// text follows, times log2 of their number. Thread safety: immutable.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::data::detail {

class PrefixIndex {
 public:
  struct Entry {
    std::string text;
    int32_t value;
  };
  explicit PrefixIndex(std::vector<Entry> entries = {});

  // Calls f(entry) for each entry that `text` begins with, the shorter before the longer.
  template <class F>
  void for_each(std::string_view text, F&& f) const {
    if (text.empty()) return;
    const auto first = static_cast<uint8_t>(text[0]);
    size_t begin = begin_of_[first], end = begin_of_[first + size_t{1}];
    for (size_t depth = 1; begin < end; ++depth) {
      // Of entries that share `depth` bytes the one that has no more of them comes first.
      if (entries_[begin].text.size() == depth) f(entries_[begin++]);
      if (depth == text.size()) return;
      narrow(begin, end, depth, static_cast<uint8_t>(text[depth]));
    }
  }
  // The longest one that `text` begins with; null: none.
  const Entry* longest(std::string_view text) const {
    const Entry* best = nullptr;
    for_each(text, [&](const Entry& entry) { best = &entry; });
    return best;
  }

 private:
  void narrow(size_t& begin, size_t& end, size_t depth, uint8_t byte) const;

  std::vector<Entry> entries_;  // by text
  std::array<size_t, 257> begin_of_{};
};

}  // namespace heddle::data::detail
