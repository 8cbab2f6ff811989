#include "heddle/data/tokenizers/prefix_index.h"

#include <utility>

namespace heddle::data::detail {

PrefixIndex::PrefixIndex(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  const auto same = [](const Entry& a, const Entry& b) { return a.text == b.text; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  size_t at = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    begin_of_[byte] = at;
    while (at < entries_.size() && static_cast<uint8_t>(entries_[at].text[0]) == byte) ++at;
  }
  begin_of_[256] = entries_.size();
}

// To the entries with that byte at `depth`; all in the range are longer.
void PrefixIndex::narrow(size_t& begin, size_t& end, size_t depth, uint8_t byte) const {
  const auto first = entries_.begin();
  const auto from = first + static_cast<ptrdiff_t>(begin), to = first + static_cast<ptrdiff_t>(end);
  const auto at = [depth](const Entry& entry) { return static_cast<uint8_t>(entry.text[depth]); };
  const auto low = std::partition_point(from, to, [&](const Entry& entry) { return at(entry) < byte; });
  const auto high = std::partition_point(low, to, [&](const Entry& entry) { return at(entry) <= byte; });
  begin = static_cast<size_t>(low - first);
  end = static_cast<size_t>(high - first);
}

}  // namespace heddle::data::detail
