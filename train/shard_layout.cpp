#include "heddle/train/shard_layout.h"

#include <algorithm>
#include <numeric>

namespace heddle::train {
namespace {

using Bucket = ShardLayout::Bucket;

std::vector<Bucket> buckets_of(const std::vector<int64_t>& elements, int64_t bucket_elements) {
  std::vector<Bucket> buckets;
  int64_t filled = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] == 0) continue;
    if (buckets.empty() || (bucket_elements > 0 && filled >= bucket_elements)) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().parameters.push_back(i);
    filled += elements[i];
  }
  return buckets;
}

void share_equally(Bucket& bucket, int64_t elements, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) bucket.sizes.push_back(elements / ranks + (rank < elements % ranks ? 1 : 0));
}

// By parameter.
std::vector<size_t> owners_of(const std::vector<int64_t>& elements, int ranks) {
  std::vector<size_t> order(elements.size()), owners(elements.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return elements[i]; });
  std::vector<int64_t> owned(static_cast<size_t>(ranks));
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(owned);
    owners[i] = static_cast<size_t>(least - owned.begin());
    *least += elements[i];
  }
  return owners;
}

void share_whole(Bucket& bucket, const std::vector<int64_t>& elements, const std::vector<size_t>& owners, int ranks) {
  std::ranges::stable_sort(bucket.parameters, {}, [&](size_t i) { return owners[i]; });
  bucket.sizes.assign(static_cast<size_t>(ranks), 0);
  for (const size_t i : bucket.parameters) bucket.sizes[owners[i]] += elements[i];
}

}  // namespace

int64_t Bucket::elements() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t{0}); }
int64_t Bucket::begin_of(int rank) const { return std::accumulate(sizes.begin(), sizes.begin() + rank, int64_t{0}); }

ShardLayout::ShardLayout(const std::vector<int64_t>& elements, const ShardLayoutOptions& options)
    : elements_(elements), buckets_(buckets_of(elements, options.bucket_elements)) {
  const std::vector<size_t> owners = owners_of(elements, options.ranks);
  for (Bucket& bucket : buckets_) {
    int64_t total = 0;
    for (const size_t i : bucket.parameters) total += elements[i];
    if (options.elementwise)
      share_equally(bucket, total, options.ranks);
    else
      share_whole(bucket, elements, owners, options.ranks);
  }
}

std::vector<nn::Shard> ShardLayout::shards_of(int rank) const {
  std::vector<nn::Shard> shards;
  for (const Bucket& bucket : buckets_) {
    const int64_t first = bucket.begin_of(rank), last = first + bucket.sizes[static_cast<size_t>(rank)];
    int64_t at = 0;  // where the parameter begins in the bucket
    for (const size_t i : bucket.parameters) {
      const int64_t begin = std::max(first - at, int64_t{0}), end = std::min(last - at, elements_[i]);
      if (begin < end) shards.push_back({.parameter = i, .begin = begin, .end = end});
      at += elements_[i];
    }
  }
  return shards;
}

int64_t ShardLayout::elements_of(int rank) const {
  int64_t count = 0;
  for (const Bucket& bucket : buckets_) count += bucket.sizes[static_cast<size_t>(rank)];
  return count;
}

}  // namespace heddle::train
