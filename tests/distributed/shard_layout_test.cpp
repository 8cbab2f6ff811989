// train/shard_layout.h: each element has one owner, and what ranks own is balanced.
#include "heddle/train/shard_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace heddle::train {
namespace {

using Elements = std::vector<int64_t>;

// Of each element of each parameter, who owns it; parts of a bucket lie in the order of ranks.
void expect_one_owner_each(const Elements& elements, const ShardLayout& layout, int ranks) {
  std::map<std::pair<size_t, int64_t>, int> owned;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t count = 0;
    for (const nn::Shard& shard : layout.shards_of(rank)) {
      for (int64_t i = shard.begin; i < shard.end; ++i) ++owned[{shard.parameter, i}];
      count += shard.end - shard.begin;
    }
    EXPECT_EQ(count, layout.elements_of(rank)) << rank;
  }
  EXPECT_EQ(static_cast<int64_t>(owned.size()), std::accumulate(elements.begin(), elements.end(), int64_t{0}));
  EXPECT_TRUE(std::ranges::all_of(owned, [](const auto& element) { return element.second == 1; }));
}

TEST(ShardLayout, PartsOfElementwiseOptimizersDifferByOneElement) {
  const Elements elements{10, 0, 3, 25, 1, 7};
  for (const int ranks : {1, 2, 3, 8, 64}) {
    for (const int64_t bucket : {0, 1, 12, 1000}) {
      const ShardLayout layout(elements, {.ranks = ranks, .elementwise = true, .bucket_elements = bucket});
      expect_one_owner_each(elements, layout, ranks);
      for (const ShardLayout::Bucket& b : layout.buckets()) {
        const auto [least, most] = std::ranges::minmax(b.sizes);
        EXPECT_LE(most - least, 1);
      }
    }
  }
}

TEST(ShardLayout, OthersOwnWholeParameters) {
  const Elements elements{10, 0, 3, 25, 1, 7, 9};
  for (const int ranks : {1, 2, 3, 8}) {
    const ShardLayout layout(elements, {.ranks = ranks, .elementwise = false, .bucket_elements = 12});
    expect_one_owner_each(elements, layout, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const nn::Shard& shard : layout.shards_of(rank)) {
        EXPECT_EQ(shard.begin, 0);
        EXPECT_EQ(shard.end, elements[shard.parameter]);
      }
    }
  }
  const ShardLayout two(elements, {.ranks = 2, .elementwise = false, .bucket_elements = 0});
  EXPECT_EQ(two.elements_of(0), 28);  // 25 + 3 of 55
}

TEST(ShardLayout, ABucketEndsWithTheParameterThatFillsIt) {
  const ShardLayout layout({4, 4, 100, 2, 2}, {.ranks = 2, .elementwise = true, .bucket_elements = 8});
  ASSERT_EQ(layout.buckets().size(), 3u);
  EXPECT_EQ(layout.buckets()[0].parameters, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(layout.buckets()[1].parameters, (std::vector<size_t>{2}));
  EXPECT_EQ(layout.buckets()[2].parameters, (std::vector<size_t>{3, 4}));
  EXPECT_EQ(layout.buckets()[2].sizes, (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(ShardLayout({}, {.ranks = 2}).buckets().empty());
  EXPECT_TRUE(ShardLayout({0, 0}, {.ranks = 2}).shards_of(1).empty());
}

}  // namespace
}  // namespace heddle::train
