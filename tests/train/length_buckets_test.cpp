// Batches of similar lengths: every example once, cut to what the loss needs and no further, the same when resumed.
#include "heddle/train/recipes/length_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/data/chat_template.h"

namespace heddle::train {
namespace {

// `rows` of `length` tokens an example, of which the first `needed[i]` tokens, in the last row, have targets.
data::DatasetPtr examples(const std::vector<int64_t>& needed, int64_t length, int64_t rows = 1) {
  const auto n = static_cast<int64_t>(needed.size());
  std::vector<int32_t> tokens(static_cast<size_t>(n * rows * length)), targets(tokens.size(), data::ignored_target);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t t = 0; t < rows * length; ++t)
      tokens[static_cast<size_t>(i * rows * length + t)] = static_cast<int32_t>(1000 * i + t);
    const int64_t last = needed[static_cast<size_t>(i)] - 1;
    if (last >= 0) targets[static_cast<size_t>(((i + 1) * rows - 1) * length + last)] = 7;
  }
  const Shape shape = rows == 1 ? Shape{n, length} : Shape{n, rows, length};
  return data::from_arrays({data::Array::of(tokens, shape), data::Array::of(targets, shape)});
}

std::vector<int64_t> drawn(size_t count, int64_t longest) {
  std::mt19937 random(3);
  std::vector<int64_t> lengths(count);
  for (int64_t& n : lengths) n = 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(longest));
  return lengths;
}

TEST(LengthBuckets, EveryExampleOnceAndFullBatchesOfOneBucket) {
  const std::vector<int64_t> needed = drawn(103, 61);
  const LengthBuckets made = length_buckets(examples(needed, 61), {.count = 4, .batch = 4, .seed = 5});
  ASSERT_EQ(made.lengths.size(), 4u);
  EXPECT_EQ(made.lengths.back(), 61);  // no longer than the rows
  const auto bucket = [&](int64_t i) {
    return std::lower_bound(made.lengths.begin(), made.lengths.end(), needed[static_cast<size_t>(i)]);
  };
  std::set<std::vector<int64_t>> orders;
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<int64_t> order = made.sampler->order(epoch);
    EXPECT_EQ(order, made.sampler->order(epoch));
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), needed.size());
    EXPECT_EQ(std::ssize(order), made.sampler->size());
    std::map<std::ptrdiff_t, int> mixed;
    for (size_t at = 0; at + 4 <= order.size(); at += 4) {
      const bool one =
          std::all_of(order.begin() + static_cast<ptrdiff_t>(at), order.begin() + static_cast<ptrdiff_t>(at) + 4,
                      [&](int64_t i) { return bucket(i) == bucket(order[at]); });
      mixed[one] += 1;
    }
    EXPECT_LE(mixed[0], 4);  // from what fills no batch of its bucket
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(LengthBuckets, BatchesAreCutBehindTheLastTarget) {
  const std::vector<int64_t> needed{3, 9, 30, 30, 8, 1};
  const data::DatasetPtr rows = examples(needed, 40, 2);
  const LengthBuckets made = length_buckets(rows, {.count = 3, .batch = 2, .seed = 1});
  EXPECT_EQ(made.lengths, (std::vector<int64_t>{8, 16, 32}));
  EXPECT_DOUBLE_EQ(made.mean_length, (3 * 8 + 16 + 2 * 32) / 6.0);
  data::Random random(0, 0, 0);
  const auto batch_of = [&](int64_t a, int64_t b) {
    return made.collate(std::vector<data::Sample>{rows->get(a, random), rows->get(b, random)});
  };
  const data::Sample small = batch_of(0, 4), large = batch_of(5, 2);
  EXPECT_EQ(small[0].shape, (Shape{2, 2, 8}));
  EXPECT_EQ(large[1].shape, (Shape{2, 2, 32}));
  EXPECT_EQ(small[0].as<int32_t>()[8], 40);             // second row of the first example
  EXPECT_EQ(small[0].as<int32_t>()[16 + 8 + 7], 4047);  // its last token within the bucket, of the other
  EXPECT_EQ(small[1].as<int32_t>()[8 + 2], 7);
  EXPECT_EQ(large[1].as<int32_t>()[64 + 32 + 29], 7);
}

TEST(LengthBuckets, OneBucketHasTheLongestAndNoneIsRefused) {
  const data::DatasetPtr rows = examples({0, 5, 12}, 12);
  EXPECT_EQ(length_buckets(rows, {.count = 1, .batch = 2}).lengths, (std::vector<int64_t>{12}));
  EXPECT_THROW(length_buckets(rows, {.count = 0, .batch = 2}), ValueError);
}

}  // namespace
}  // namespace heddle::train
