#include "heddle/data/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/data/batcher.h"

namespace heddle::data {

std::vector<int64_t> choose_buckets(std::span<const int64_t> lengths, int64_t count, int64_t multiple) {
  if (lengths.empty()) throw ValueError("[choose_buckets] there are no lengths");
  if (count < 1 || multiple < 1)
    throw ValueError(
        fmt::format("[choose_buckets] {} buckets of multiples of {}; both must be at least 1", count, multiple));
  std::map<int64_t, int64_t> texts;  // by rounded length
  for (const int64_t length : lengths) {
    if (length < 0) throw ValueError(fmt::format("[choose_buckets] a length is {}", length));
    int64_t rounded = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(ceil_div(length, multiple), 1), multiple, &rounded)) {
      throw ValueError(fmt::format("[choose_buckets] a length of {} has no multiple of {} above it", length, multiple));
    }
    ++texts[rounded];
  }
  const std::vector<std::pair<int64_t, int64_t>> sizes(texts.begin(), texts.end());
  const size_t n = sizes.size(), most = std::min(n, static_cast<size_t>(count));
  // cost[k][i]: fewest elements for the first i sizes in k buckets, the last of which ends at size i - 1.
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> cost(most + 1, std::vector<double>(n + 1, infinite));
  std::vector<std::vector<size_t>> from(most + 1, std::vector<size_t>(n + 1, 0));
  cost[0][0] = 0;
  for (size_t k = 1; k <= most; ++k) {
    for (size_t end = 1; end <= n; ++end) {
      double held = 0;
      for (size_t begin = end; begin-- > 0;) {
        held += static_cast<double>(sizes[begin].second);
        const double total = cost[k - 1][begin] + held * static_cast<double>(sizes[end - 1].first);
        if (total < cost[k][end]) {
          cost[k][end] = total;
          from[k][end] = begin;
        }
      }
    }
  }
  std::vector<int64_t> buckets;
  size_t k = 1;
  for (size_t j = 2; j <= most; ++j) {
    if (cost[j][n] < cost[k][n]) k = j;
  }
  for (size_t end = n; k > 0; end = from[k][end], --k) buckets.push_back(sizes[end - 1].first);
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

size_t bucket_of(std::span<const int64_t> buckets, int64_t length) {
  const auto at = std::lower_bound(buckets.begin(), buckets.end(), length);
  if (at == buckets.end()) {
    throw ValueError(fmt::format("[buckets] a text of {} elements is longer than the last bucket ({})", length,
                                 buckets.empty() ? 0 : buckets.back()));
  }
  return static_cast<size_t>(at - buckets.begin());
}

std::vector<BucketBatch> bucketed_batches(std::span<const int64_t> lengths, std::span<const int64_t> buckets,
                                          const BucketOptions& options, uint64_t epoch) {
  if (options.batch < 1)
    throw ValueError(fmt::format("[buckets] the batch is {}; it must be at least 1", options.batch));
  std::vector<std::vector<uint32_t>> members(buckets.size());
  const std::vector<uint32_t> order = options.shuffle
                                          ? shuffled_order(static_cast<int64_t>(lengths.size()), options.seed, epoch)
                                          : std::vector<uint32_t>{};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const uint32_t item = options.shuffle ? order[i] : static_cast<uint32_t>(i);
    members[bucket_of(buckets, lengths[item])].push_back(item);
  }
  std::vector<BucketBatch> batches;
  const auto batch = static_cast<size_t>(options.batch);
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (size_t first = 0; first < members[b].size(); first += batch) {
      const size_t last = std::min(first + batch, members[b].size());
      if (options.drop_last && last - first < batch) continue;
      batches.push_back({buckets[b],
                         {members[b].begin() + static_cast<std::ptrdiff_t>(first),
                          members[b].begin() + static_cast<std::ptrdiff_t>(last)}});
    }
  }
  if (!options.shuffle) return batches;
  std::vector<BucketBatch> mixed;
  for (const uint32_t at : shuffled_order(static_cast<int64_t>(batches.size()), ~options.seed, epoch))
    mixed.push_back(std::move(batches[at]));
  return mixed;
}

std::vector<int32_t> pad_sequences(std::span<const std::vector<int32_t>> texts, std::span<const uint32_t> items,
                                   int64_t length, int32_t pad) {
  if (length < 0 || length > std::numeric_limits<int32_t>::max())
    throw ValueError(fmt::format("[pad_sequences] a length of {}; expected 0 to 2^31 - 1", length));
  std::vector<int32_t> rows(items.size() * static_cast<size_t>(length), pad);
  for (size_t r = 0; r < items.size(); ++r) {
    if (items[r] >= texts.size())
      throw ValueError(fmt::format("[pad_sequences] item {} of {} texts", items[r], texts.size()));
    const std::vector<int32_t>& text = texts[items[r]];
    if (static_cast<int64_t>(text.size()) > length) {
      throw ValueError(fmt::format("[pad_sequences] text {} has {} elements, more than the length {}", items[r],
                                   text.size(), length));
    }
    std::copy(text.begin(), text.end(), rows.begin() + static_cast<std::ptrdiff_t>(r * static_cast<size_t>(length)));
  }
  return rows;
}

}  // namespace heddle::data
