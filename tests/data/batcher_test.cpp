// Batches and the order of the data.
#include "heddle/data/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

using data::Batch;
using data::Batcher;
using data::shuffled_order;

// Image i has four pixels of value i; its label is i % 10.
data::ImageSet numbered_images(int64_t images) {
  data::ImageSet set{2, 2, 10, {}, {}};
  for (int64_t i = 0; i < images; ++i) {
    set.pixels.insert(set.pixels.end(), 4, static_cast<uint8_t>(i));
    set.labels.push_back(static_cast<uint8_t>(i % 10));
  }
  return set;
}

std::vector<int> visited(Batcher& batcher) {
  std::vector<int> items;
  Batch batch;
  while (batcher.next(batch)) {
    EXPECT_EQ(batch.images.size(), static_cast<size_t>(batch.size) * 4);
    EXPECT_EQ(batch.labels.size(), static_cast<size_t>(batch.size));
    for (int64_t i = 0; i < batch.size; ++i) {
      const float pixel = batch.images[static_cast<size_t>(i) * 4 + 3];
      const int item = static_cast<int>(pixel * 255.0f + 0.5f);
      EXPECT_EQ(pixel, static_cast<float>(item) / 255.0f);
      EXPECT_EQ(batch.labels[static_cast<size_t>(i)], item % 10);
      items.push_back(item);
    }
  }
  return items;
}

TEST(Shuffle, IsAPermutationAndDependsOnSeedAndEpoch) {
  for (const int64_t items : {0, 1, 2, 5, 1000}) {
    std::vector<uint32_t> order = shuffled_order(items, 7, 3);
    EXPECT_EQ(order, shuffled_order(items, 7, 3));
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> all(static_cast<size_t>(items));
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(order, all);
  }
  EXPECT_NE(shuffled_order(1000, 7, 3), shuffled_order(1000, 8, 3));
  EXPECT_NE(shuffled_order(1000, 7, 3), shuffled_order(1000, 7, 4));
  EXPECT_THROW(shuffled_order(-1, 0, 0), ValueError);
}

TEST(Shuffle, StoredOrder) {  // the same on every platform and in every version
  EXPECT_EQ(shuffled_order(8, 1, 0), (std::vector<uint32_t>{1, 5, 4, 2, 7, 6, 3, 0}));
}

TEST(Shuffle, EveryPositionIsEquallyLikely) {
  std::array<std::array<int, 4>, 4> counts{};
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const auto order = shuffled_order(4, seed, 0);
    for (size_t i = 0; i < 4; ++i) ++counts[i][order[i]];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 1000, 140);  // five standard deviations
  }
}

TEST(BatcherTest, DropLastKeepsBatchesFull) {
  const auto set = numbered_images(23);
  Batcher batcher(set, {.batch = 5, .seed = 1});
  EXPECT_EQ(batcher.batches_per_epoch(), 4);
  const auto items = visited(batcher);
  EXPECT_EQ(items.size(), 20u);
  EXPECT_EQ(std::set<int>(items.begin(), items.end()).size(), 20u);
}

TEST(BatcherTest, KeepLastVisitsAll) {
  const auto set = numbered_images(23);
  Batcher batcher(set, {.batch = 5, .shuffle = false, .drop_last = false});
  EXPECT_EQ(batcher.batches_per_epoch(), 5);
  const auto items = visited(batcher);
  ASSERT_EQ(items.size(), 23u);
  for (int i = 0; i < 23; ++i) EXPECT_EQ(items[static_cast<size_t>(i)], i);
}

TEST(BatcherTest, AnEpochCanBeEnteredInTheMiddle) {
  const auto set = numbered_images(20);
  Batcher whole(set, {.batch = 4, .seed = 9}), rest(set, {.batch = 4, .seed = 9});
  whole.start_epoch(2);
  rest.start_epoch(2, 3);
  const auto all = visited(whole), tail = visited(rest);
  ASSERT_EQ(tail.size(), 8u);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), all.begin() + 12));
}

TEST(BatcherTest, ImpossibleSizes) {
  const auto set = numbered_images(3);
  EXPECT_THROW(Batcher(set, {.batch = 0}), ValueError);
  EXPECT_THROW(Batcher(set, {.batch = -4}), ValueError);
  EXPECT_THROW(Batcher(set, {.batch = 4}), ValueError);
  EXPECT_EQ(Batcher(set, {.batch = 4, .drop_last = false}).batches_per_epoch(), 1);
  auto cut = set;
  cut.pixels.pop_back();
  EXPECT_THROW(Batcher(cut, {.batch = 2}), ShapeError);
}

}  // namespace
}  // namespace heddle
