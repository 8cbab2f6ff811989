// Datasets, samplers and the loader: the same batches for any number of workers, bounded work ahead, errors in their
// place, resuming.
#include "heddle/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Array;
using data::Random;
using data::Sample;
using test::contains;
using test::thrown_text;

// Example i: its number, and a number drawn for it.
data::DatasetPtr numbered(int64_t size) {
  return data::generated(size, [](int64_t i, Random& random) {
    return Sample{Array::scalar(static_cast<int32_t>(i)),
                  Array::of(std::vector<float>{random.uniform(), random.uniform(2, 3)}, Shape{2})};
  });
}

std::vector<Sample> all_batches(data::Loader& loader, uint64_t epoch, int64_t first = 0) {
  loader.start_epoch(epoch, first);
  std::vector<Sample> batches;
  Sample batch;
  while (loader.next(batch)) batches.push_back(batch);
  return batches;
}

bool same(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Sample& x, const Sample& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Array& p, const Array& q) {
      return p.dtype == q.dtype && p.shape == q.shape && p.bytes == q.bytes;
    });
  });
}

std::vector<int32_t> numbers_in(const std::vector<Sample>& batches) {
  std::vector<int32_t> numbers;
  for (const Sample& batch : batches) {
    const auto part = batch[0].as<int32_t>();
    numbers.insert(numbers.end(), part.begin(), part.end());
  }
  return numbers;
}

// Numbers and what was drawn for them: the parts of a batch, one behind the other, are the batch.
TEST(Loader, PartsOfEachBatchMakeItUp) {
  data::Loader whole(numbered(26), data::shuffled(26, 5), {.batch = 7, .seed = 9});
  const std::vector<Sample> batches = all_batches(whole, 2, 1);
  ASSERT_EQ(batches.size(), 2u);
  for (const int workers : {0, 2}) {
    std::vector<std::vector<Sample>> parts;
    for (const data::BatchPart part : {data::BatchPart{0, 2}, {2, 2}, {4, 3}}) {
      data::Loader loader(numbered(26), data::shuffled(26, 5),
                          {.batch = 7, .workers = workers, .seed = 9, .part = part});
      EXPECT_EQ(loader.batches(), 3);
      parts.push_back(all_batches(loader, 2, 1));
    }
    for (size_t batch = 0; batch < 2; ++batch) {
      for (size_t array = 0; array < 2; ++array) {
        std::vector<std::byte> bytes;
        for (const auto& part : parts)
          bytes.insert(bytes.end(), part[batch][array].bytes.begin(), part[batch][array].bytes.end());
        EXPECT_EQ(bytes,
                  std::vector<std::byte>(batches[batch][array].bytes.begin(), batches[batch][array].bytes.end()));
      }
    }
  }
}

TEST(Loader, SameBatchesForAnyNumberOfWorkers) {
  const data::DatasetPtr set = numbered(103);
  data::Loader alone(set, data::shuffled(103, 5), {.batch = 8, .drop_last = false, .seed = 3});
  EXPECT_EQ(alone.batches(), 13);
  const std::vector<Sample> first = all_batches(alone, 0), second = all_batches(alone, 1);
  EXPECT_EQ(first.size(), 13u);
  EXPECT_EQ(first[0][1].shape, (Shape{8, 2}));
  EXPECT_EQ(first.back()[0].shape, Shape{7});
  EXPECT_FALSE(same(first, second));
  std::vector<int32_t> numbers = numbers_in(first);
  std::sort(numbers.begin(), numbers.end());
  for (int32_t i = 0; i < 103; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
  for (const int workers : {1, 3, 8}) {
    data::Loader loader(set, data::shuffled(103, 5),
                        {.batch = 8, .workers = workers, .prefetch = 3, .drop_last = false, .seed = 3});
    EXPECT_TRUE(same(all_batches(loader, 0), first)) << workers;
    EXPECT_TRUE(same(all_batches(loader, 1), second)) << workers;
  }
}

TEST(Loader, GoesOnFromAPosition) {
  const data::DatasetPtr set = numbered(50);
  for (const int workers : {0, 2}) {
    data::Loader loader(set, data::shuffled(50, 1), {.batch = 7, .workers = workers});
    loader.start_epoch(4);
    Sample batch;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader.next(batch));
    const data::Loader::Position position = loader.position();
    EXPECT_EQ(position, (data::Loader::Position{4, 3}));
    std::vector<Sample> rest;
    while (loader.next(batch)) rest.push_back(batch);
    EXPECT_EQ(rest.size(), 4u);
    data::Loader other(set, data::shuffled(50, 1), {.batch = 7, .workers = workers});
    EXPECT_TRUE(same(all_batches(other, position.epoch, position.batch), rest));
  }
}

TEST(Loader, WorksNoFurtherAheadThanAsked) {
  std::atomic<int64_t> made = 0;
  const data::DatasetPtr set = data::generated(1000, [&](int64_t i, Random&) {
    ++made;
    return Sample{Array::scalar(static_cast<int32_t>(i))};
  });
  data::Loader loader(set, data::sequential(1000), {.batch = 10, .workers = 4, .prefetch = 5});
  Sample batch;
  ASSERT_TRUE(loader.next(batch));
  for (int i = 0; i < 200 && made < 60; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 60);  // the batch that was taken and five more
}

TEST(Loader, ErrorsReachTheBatchTheyBelongTo) {
  const data::DatasetPtr set = data::generated(40, [](int64_t i, Random&) {
    if (i == 13) throw IoError("[test] image 13 is broken");
    return Sample{Array::scalar(static_cast<int32_t>(i))};
  });
  for (const int workers : {0, 3}) {
    data::Loader loader(set, data::sequential(40), {.batch = 5, .workers = workers});
    Sample batch;
    ASSERT_TRUE(loader.next(batch));
    ASSERT_TRUE(loader.next(batch));
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { loader.next(batch); }), "image 13"));
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch[0].as<int32_t>()[0], 15) << workers;
  }
}

class Counting final : public data::IterableDataset {
 public:
  explicit Counting(int32_t count, int32_t broken_at = -1) : count_(count), broken_at_(broken_at) {}
  std::unique_ptr<data::SampleStream> open(uint64_t epoch) const override {
    struct Stream final : data::SampleStream {
      int32_t at = 0, end = 0, broken = -1;
      std::optional<Sample> next() override {
        if (at == broken) throw IoError("[test] the file ends in the middle of a record");
        return at < end ? std::optional(Sample{Array::scalar(at++)}) : std::nullopt;
      }
    };
    auto stream = std::make_unique<Stream>();
    stream->at = static_cast<int32_t>(1000 * epoch);
    stream->end = stream->at + count_;
    if (broken_at_ >= 0) stream->broken = stream->at + broken_at_;
    return stream;
  }

 private:
  int32_t count_, broken_at_;
};

TEST(Loader, ReadsStreamsInOrder) {
  const auto halve = [](Sample sample, Random& random) {
    sample.push_back(Array::scalar(static_cast<float>(sample[0].as<int32_t>()[0]) / 2 + random.uniform()));
    return sample;
  };
  const data::IterableDatasetPtr set = std::make_shared<Counting>(26);
  data::Loader alone(set, {.batch = 4, .drop_last = false, .transforms = {halve}});
  const std::vector<Sample> expected = all_batches(alone, 2);
  EXPECT_EQ(expected.size(), 7u);
  EXPECT_EQ(numbers_in(expected)[25], 2025);
  data::Loader loader(set, {.batch = 4, .workers = 3, .drop_last = false, .transforms = {halve}});
  EXPECT_EQ(loader.batches(), -1);
  EXPECT_TRUE(same(all_batches(loader, 2), expected));
  EXPECT_TRUE(same(all_batches(loader, 2, 5), {expected[5], expected[6]}));
  data::Loader full(set, {.batch = 4, .workers = 2});
  EXPECT_EQ(all_batches(full, 0).size(), 6u);
  data::Loader broken(std::make_shared<Counting>(26, 10), {.batch = 4, .workers = 2});
  Sample batch;
  ASSERT_TRUE(broken.next(batch));
  ASSERT_TRUE(broken.next(batch));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { broken.next(batch); }), "middle of a record"));
  EXPECT_FALSE(broken.next(batch));
}

TEST(Loader, EndsInTheMiddleOfWork) {
  const data::DatasetPtr slow = data::generated(1000, [](int64_t i, Random&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Sample{Array::scalar(static_cast<int32_t>(i))};
  });
  data::Loader loader(slow, data::sequential(1000), {.batch = 2, .workers = 4});
  Sample batch;
  ASSERT_TRUE(loader.next(batch));
  loader.start_epoch(1);
  ASSERT_TRUE(loader.next(batch));
  const data::LoaderReport report = loader.report();
  EXPECT_EQ(report.batches, 1);
  EXPECT_TRUE(contains(report.str(), "the loop waited for data"));
}

TEST(Loader, CallsBackWhileTheLoopWaits) {
  const data::DatasetPtr slow = data::generated(6, [](int64_t i, Random&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return Sample{Array::scalar(static_cast<int32_t>(i))};
  });
  const auto calls = [&](int workers) {
    data::Loader loader(slow, data::sequential(6), {.batch = 3, .workers = workers});
    Sample batch;
    int count = 0;
    while (loader.next(batch, [&] { ++count; })) {
    }
    return count;
  };
  EXPECT_EQ(calls(0), 6);  // once for each example
  EXPECT_GE(calls(1), 6);  // 90 ms, in parts of 0.2 ms where the machine keeps up
}

TEST(Loader, BadOptions) {
  const data::DatasetPtr set = numbered(5);
  const auto make = [&](const data::LoaderOptions& o) {
    return [&set, o] { data::Loader(set, data::sequential(5), o); };
  };
  EXPECT_TRUE(contains(thrown_text<ValueError>(make({.batch = 0})), "batch size is 0"));
  EXPECT_TRUE(contains(thrown_text<ValueError>(make({.batch = 6})), "only 5 examples"));
  EXPECT_TRUE(contains(thrown_text<ValueError>(make({.batch = 1, .workers = -1})), "-1 workers"));
  for (const data::BatchPart part : {data::BatchPart{-1, 2}, {3, 2}, {0, 5}, {1, 0}, {0, -1}}) {
    EXPECT_TRUE(contains(thrown_text<ValueError>(make({.batch = 4, .part = part})),
                         "from place " + std::to_string(part.first) + " on are no part of a batch of 4"));
  }
  EXPECT_TRUE(contains(thrown_text<ValueError>(make({.batch = 2, .drop_last = false, .part = {0, 1}})), "drop_last"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::Loader(set, data::sequential(9), {.batch = 1}); }),
                       "example 5 of 5"));
  data::Loader loader(set, data::sequential(5), {.batch = 2});
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { loader.start_epoch(0, 3); }), "batch 3 of an epoch of 2"));
}

// A sampler, or a caller, that does not keep to what there is.
TEST(Loader, NumbersThatAreNotThere) {
  struct Liar final : data::Sampler {
    int64_t size() const override { return 8; }
    std::vector<int64_t> order(uint64_t) const override { return {0, 1}; }
  };
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([] { data::Loader(numbered(8), std::make_shared<Liar>(), {.batch = 4}); }),
               "the sampler gave 2 examples, but said 8"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::sequential(-1); }), "-1 examples"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::shuffled(-1, 0); }), "-1 examples"));
  Random random(0, 0, 0);
  const data::DatasetPtr arrays = data::from_arrays({Array::of(std::vector<float>{1, 2, 3}, {3})}),
                         made = data::generated(3, [](int64_t, Random&) { return Sample{}; });
  for (const int64_t index : {-1, 3}) {
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] { arrays->get(index, random); }), "among 3"));
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] { made->get(index, random); }), "among 3"));
  }
}

TEST(Stack, RefusesWhatDiffers) {
  const Sample a = {Array::of(std::vector<float>{1, 2}, Shape{2})},
               b = {Array::of(std::vector<float>{1, 2, 3}, Shape{3})};
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] {
                         data::stack(std::vector{a, a, b});
                       }),
                       "example 2 is (3) f32, of the first (2) f32"));
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] { data::stack(std::vector{a, Sample{}}); }), "has 0 arrays"));
  EXPECT_TRUE(contains(thrown_text<ShapeError>([] { data::stack({}); }), "no examples"));
  const std::vector<Tensor> tensors = data::to_tensors(data::stack(std::vector{a, a}), device("reference:0"));
  EXPECT_EQ(tensors[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(tensors[0].to_vector<float>(), (std::vector<float>{1, 2, 1, 2}));
}

TEST(Samplers, VisitWhatTheySay) {
  const std::vector<int64_t> order = data::shuffled(20, 7)->order(3);
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 20u);
  EXPECT_NE(order, data::shuffled(20, 7)->order(4));
  std::multiset<int64_t> together;
  for (int64_t shard = 0; shard < 3; ++shard) {
    const std::vector<int64_t> own = data::sharded(data::shuffled(20, 7), shard, 3)->order(3);
    EXPECT_EQ(own.size(), 7u);
    together.insert(own.begin(), own.end());
  }
  EXPECT_EQ(together.size(), 21u);
  EXPECT_EQ(std::set<int64_t>(together.begin(), together.end()).size(), 20u);
  const std::vector<int64_t> draws = data::weighted({0, 1, 0, 3}, 20000, 1)->order(0);
  const auto ones = std::count(draws.begin(), draws.end(), 1), threes = std::count(draws.begin(), draws.end(), 3);
  EXPECT_EQ(ones + threes, 20000);
  EXPECT_NEAR(static_cast<double>(ones), 5000, 250);  // four standard deviations
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::weighted({0, 0}, 1); }), "all weights are 0"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::weighted({1, -1}, 1); }), "weight 1 is -1"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::sharded(data::sequential(4), 2, 2); }), "shard 2 of 2"));
}

TEST(Datasets, Compose) {
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), 0.0f);
  const data::DatasetPtr rows =
      data::from_arrays({Array::of(values, Shape{6, 2}), Array::of(std::vector<int32_t>{5, 4, 3, 2, 1, 0}, Shape{6})});
  Random random(0, 0, 0);
  EXPECT_EQ(rows->size(), 6);
  EXPECT_EQ(rows->get(2, random)[0].as<float>()[1], 5);
  EXPECT_EQ(rows->get(2, random)[1].as<int32_t>()[0], 3);
  const data::DatasetPtr some = data::subset(rows, {4, 1}), both = data::concatenated({some, rows});
  EXPECT_EQ(both->size(), 8);
  EXPECT_EQ(both->get(1, random)[1].as<int32_t>()[0], 4);
  EXPECT_EQ(both->get(2, random)[1].as<int32_t>()[0], 5);
  const data::DatasetPtr doubled = data::transformed(some, {[](Sample s, Random&) {
                                                       for (float& x : s[0].as<float>()) x *= 2;
                                                       return s;
                                                     }});
  EXPECT_EQ(doubled->get(0, random)[0].as<float>()[0], 16);
  const std::vector<data::DatasetPtr> parts = data::random_split(rows, {0.5, 1.0 / 3}, 9);
  EXPECT_EQ(parts[0]->size(), 3);
  EXPECT_EQ(parts[1]->size(), 2);
  std::set<int32_t> seen;
  for (const data::DatasetPtr& part : parts) {
    for (int64_t i = 0; i < part->size(); ++i) seen.insert(part->get(i, random)[1].as<int32_t>()[0]);
  }
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::subset(rows, {6}); }), "no example 6 among 6"));
  EXPECT_EQ(data::first(rows, 2)->size(), 2);
  EXPECT_EQ(data::first(rows, 0), rows);
  EXPECT_EQ(data::first(rows, 7), rows);
  EXPECT_THROW(data::first(rows, -1), ValueError);
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::random_split(rows, {0.6, 0.6}); }), "more than 1"));
  EXPECT_TRUE(contains(thrown_text<ShapeError>([] { data::from_arrays({Array::scalar(1.0f)}); }), "scalar"));
}

}  // namespace
}  // namespace heddle
