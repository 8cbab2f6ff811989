// Sums of gradients: how they are divided into lists, when they are there, and what of their time is hidden.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/gradient_sync.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

TEST(ForecastSums, ListsOfGradients) {
  const std::vector<Bucket> lists = in_lists({{1, 300e3}, {2, 300e3}, {3, 100}, {4, 0}});
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_EQ(lists[0].bytes, 600e3);
  EXPECT_EQ(lists[0].ready, 2);
  EXPECT_EQ(lists[1].bytes, 100);
  // Of a large model a sixteenth at least, but for the last ones, which halve what is left.
  const std::vector<Bucket> many = in_lists(std::vector<Bucket>(64, {0, 1e6}));
  ASSERT_EQ(many.size(), 18u);
  EXPECT_EQ(many[14].bytes, 4e6);
  EXPECT_EQ(many[15].bytes, 2e6);
  EXPECT_EQ(many[17].bytes, 1e6);
  EXPECT_EQ(in_lists({{1, 300e3}, {2, 200e3}}).size(), 1u);  // of a small one
  // Two lists that are ready share the link; the latency of one passes beside the other: three of it in all.
  const Sharers sharers{.ranks = 2, .level = {.name = "all", .bandwidth = 1e6, .latency = 0.25}};
  EXPECT_DOUBLE_EQ(run_sums({{1, 1e6}, {1, 1e6}}, Sharding::none, sharers, 1).end, 1 + 2 + 0.75);
  EXPECT_DOUBLE_EQ(run_sums({{1, 1e6}, {5, 1e6}}, Sharding::none, sharers, 5).end, 5 + 1 + 0.75);
  EXPECT_DOUBLE_EQ(run_sums({}, Sharding::none, sharers, 7).end, 7);
}

// While lists are on their way the rank computes for so long; what two wait at once counts once.
TEST(ForecastSums, HiddenTimeOfSums) {
  const auto run = [](const std::vector<Bucket>& buckets, double share, double latency, double computed) {
    const Sharers sharers{.ranks = 2,
                          .level = {.name = "all", .bandwidth = 1e6, .latency = latency, .processor = share / 1e6}};
    return run_sums(buckets, Sharding::none, sharers, computed);
  };
  const auto expect = [&](const SumsRun& sums, double calls, double hidden) {
    EXPECT_DOUBLE_EQ(sums.overlap.calls, calls);
    EXPECT_DOUBLE_EQ(sums.overlap.hidden, hidden);
  };
  expect(run({}, 0, 0, 3), 0, 0);
  expect(run({{3, 1e6}}, 0, 0, 3), 1, 0);                // behind
  expect(run({{1, 1e6}, {5, 1e6}}, 0, 0, 5), 2, 1);      // the first is over long before the second begins
  expect(run({{1, 1e6}, {5, 1e6}}, 0, 0.5, 5), 5, 2.5);  // three latencies each
  expect(run({{1, 4e6}, {3, 4e6}}, 0, 0, 3), 8, 2);
  expect(run({{1, 1e6}, {1, 1e6}}, 0, 0.25, 1.5), 2.75, 0.5);  // 1 to 2.75 and 2 to 3.75
  expect(run({{1, 1e6}, {5, 1e6}}, 0.5, 0, 9), 2, 2);
  expect(run({{1, 1e6}, {5, 1e6}}, 0.5, 0, 5.25), 2, 1.5);  // at half of the speed while the second is sent
  expect(run({{1, 1e6}, {5, 1e6}}, 1, 0, 5), 2, 1);         // computing stands while the first is sent
}

// What sends takes the processor that computes, or half of it: computing, and what is ready later, is late by so much.
TEST(ForecastSums, SendingTakesAProcessor) {
  const auto end = [](double share, double computed) {
    const Sharers sharers{.ranks = 2, .level = {.name = "all", .bandwidth = 1e6, .processor = share / 1e6}};
    return run_sums({{1, 1e6}, {5, 1e6}}, Sharding::none, sharers, computed).end;
  };
  EXPECT_DOUBLE_EQ(end(0, 5), 6);
  EXPECT_DOUBLE_EQ(end(0.5, 5), 6.5);
  EXPECT_DOUBLE_EQ(end(1, 5), 7);  // one after the other
  EXPECT_DOUBLE_EQ(end(0.5, 9), 10);
  EXPECT_DOUBLE_EQ(end(1, 9), 11);
  const Level level{.name = "all", .bandwidth = 1e6, .processor = 0.5e-6};
  EXPECT_DOUBLE_EQ(seconds_beside(3, 2, 2, level), 4);
  EXPECT_DOUBLE_EQ(seconds_beside(3, 2, 1, level), 3.5);  // the rest is latency
  EXPECT_DOUBLE_EQ(seconds_beside(1, 4, 4, level), 4);
  for (const double bad : {-1.0, 2e-6, std::nan("")}) {
    Level other = level;
    other.processor = bad;
    tests::expect_error<ValueError>([&] { (void)Links({other}); }, {"level.all.processor"});
  }
}

}  // namespace
}  // namespace heddle::distributed
