#include "heddle/core/base/similar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace heddle {
namespace {

// Levenshtein's distance, in which two neighbours that changed places count once (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] != b[j]), last[j + 1] + 1, row[j] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string_view> similar_names(std::string_view name, std::span<const std::string_view> known) {
  constexpr size_t longest = 200;  // the time grows with the length; no name is as long
  if (name.size() > longest) return {};
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string_view candidate : known) {
    const bool part = name.size() >= 3 && candidate.find(name) != std::string_view::npos;
    const bool longer = candidate.size() >= 4 && name.starts_with(candidate);  // batchsize of batch
    const size_t d = part || longer ? 1 : distance(name, candidate);
    if (d <= std::max<size_t>(1, name.size() / 3)) near.emplace_back(d, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string_view> result;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i) result.push_back(near[i].second);
  return result;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known, std::string_view otherwise) {
  const std::vector<std::string_view> near = similar_names(name, known);
  return near.empty() ? std::string(otherwise) : fmt::format("; did you mean {}?", fmt::join(near, ", "));
}

}  // namespace heddle
