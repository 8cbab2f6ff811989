#include "heddle/data/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "heddle/core/base/error.h"

namespace heddle::data {
namespace {

int64_t padded(const std::vector<int64_t>& lengths, const std::vector<int64_t>& buckets) {
  int64_t sum = 0;
  for (const int64_t length : lengths) sum += buckets[bucket_of(buckets, length)];
  return sum;
}

std::vector<int64_t> some_lengths(size_t count) {
  std::vector<int64_t> lengths;
  uint32_t state = 7;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    lengths.push_back(1 + (state >> 16) % 40);
  }
  return lengths;
}

TEST(Buckets, FewestPaddedElementsOfAllChoices) {
  const std::vector<int64_t> lengths{3, 3, 4, 9, 10, 10, 10, 25};
  for (int64_t count = 1; count <= 3; ++count) {
    const std::vector<int64_t> buckets = choose_buckets(lengths, count);
    EXPECT_LE(buckets.size(), static_cast<size_t>(count));
    EXPECT_EQ(buckets.back(), 25);
    int64_t best = padded(lengths, {25});
    for (int64_t a = 1; a < 25 && count > 1; ++a) {
      best = std::min(best, padded(lengths, {a, 25}));
      for (int64_t b = a + 1; b < 25 && count > 2; ++b) best = std::min(best, padded(lengths, {a, b, 25}));
    }
    EXPECT_EQ(padded(lengths, buckets), best) << count;
  }
  EXPECT_EQ(choose_buckets(lengths, 100), (std::vector<int64_t>{3, 4, 9, 10, 25}));
  EXPECT_EQ(choose_buckets(lengths, 100, 8), (std::vector<int64_t>{8, 16, 32}));
  EXPECT_EQ(choose_buckets(std::vector<int64_t>{0}, 1, 8), (std::vector<int64_t>{8}));
}

TEST(Buckets, EveryTextOnceInTheSmallestBucketThatTakesIt) {
  const std::vector<int64_t> lengths = some_lengths(103), buckets = choose_buckets(lengths, 4, 4);
  const auto batches = bucketed_batches(lengths, buckets, {.batch = 8, .seed = 3}, 1);
  std::set<uint32_t> seen;
  for (const BucketBatch& batch : batches) {
    EXPECT_LE(batch.items.size(), 8u);
    for (const uint32_t item : batch.items) {
      EXPECT_TRUE(seen.insert(item).second);
      EXPECT_EQ(batch.length, buckets[bucket_of(buckets, lengths[item])]);
    }
  }
  EXPECT_EQ(seen.size(), lengths.size());
  const auto again = bucketed_batches(lengths, buckets, {.batch = 8, .seed = 3}, 1),
             other = bucketed_batches(lengths, buckets, {.batch = 8, .seed = 3}, 2);
  ASSERT_EQ(again.size(), batches.size());
  bool same = true;
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(again[i].items, batches[i].items);
    same = same && i < other.size() && other[i].items == batches[i].items;
  }
  EXPECT_FALSE(same);
  for (const BucketBatch& batch : bucketed_batches(lengths, buckets, {.batch = 8, .drop_last = true}))
    EXPECT_EQ(batch.items.size(), 8u);
  const auto plain = bucketed_batches(lengths, buckets, {.batch = 200, .shuffle = false});
  EXPECT_TRUE(std::is_sorted(plain[0].items.begin(), plain[0].items.end()));
}

TEST(Buckets, PadsRows) {
  const std::vector<std::vector<int32_t>> texts{{1, 2}, {}, {3, 4, 5}};
  EXPECT_EQ(pad_sequences(texts, std::vector<uint32_t>{2, 1, 0}, 4, -1),
            (std::vector<int32_t>{3, 4, 5, -1, -1, -1, -1, -1, 1, 2, -1, -1}));
  EXPECT_TRUE(pad_sequences(texts, {}, 4, 0).empty());
}

TEST(Buckets, BadInput) {
  const std::vector<std::vector<int32_t>> texts{{1, 2}};
  EXPECT_THROW(choose_buckets({}, 2), ValueError);
  EXPECT_THROW(choose_buckets(std::vector<int64_t>{1}, 0), ValueError);
  EXPECT_THROW(choose_buckets(std::vector<int64_t>{1}, 1, 0), ValueError);
  EXPECT_THROW(choose_buckets(std::vector<int64_t>{-1}, 1), ValueError);
  EXPECT_THROW(bucket_of(std::vector<int64_t>{8}, 9), ValueError);
  EXPECT_THROW(bucketed_batches(std::vector<int64_t>{9}, std::vector<int64_t>{8}, {}), ValueError);
  EXPECT_THROW(bucketed_batches(std::vector<int64_t>{9}, std::vector<int64_t>{16}, {.batch = 0}), ValueError);
  EXPECT_THROW(pad_sequences(texts, std::vector<uint32_t>{0}, 1, 0), ValueError);
  EXPECT_THROW(pad_sequences(texts, std::vector<uint32_t>{1}, 4, 0), ValueError);
}

}  // namespace
}  // namespace heddle::data
