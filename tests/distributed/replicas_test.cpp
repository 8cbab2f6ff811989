// Ranks that share batches, as threads of one process: what they agree on, and that they train as one does. As
// processes: train_test.cpp.
#include "heddle/train/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/registry.h"
#include "tests/distributed/rank_threads.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using distributed::World;
using distributed::test::all_ranks;
using distributed::test::run_ranks;
using tests::expect_error;

TEST(Replicas, PartsOfABatchFollowEachOther) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<data::BatchPart> parts(static_cast<size_t>(ranks));
    all_ranks(ranks, [&](World& world) {
      parts[static_cast<size_t>(world.rank())] = Replicas(world).part_of(7);
      expect_error<ValueError>([&] { (void)Replicas(world).part_of(ranks - 1); }, {"each takes one example at least"});
    });
    int64_t next = 0, least = 7, most = 0;
    for (const data::BatchPart& part : parts) {
      EXPECT_EQ(part.first, next);
      next += part.size;
      least = std::min(least, part.size);
      most = std::max(most, part.size);
    }
    EXPECT_EQ(next, 7);
    EXPECT_LE(most - least, 1);
  }
}

TEST(Replicas, DecisionsAreTakenAlike) {
  all_ranks(3, [](World& world) {
    Replicas ranks(world);
    const auto mine = static_cast<float>(world.rank() + 1);
    std::vector<float> values{mine, 0.5f};
    ranks.sum(values);
    EXPECT_EQ(values, (std::vector<float>{6, 1.5f}));
    values = {mine, -mine};
    ranks.take_first(values);
    EXPECT_EQ(values, (std::vector<float>{1, -1}));
    EXPECT_EQ(ranks.of_first(0.1 * mine), 0.1 * 1.0f);
    EXPECT_EQ(ranks.of_first(~uint64_t{0} - static_cast<uint64_t>(world.rank())), ~uint64_t{0});
    EXPECT_TRUE(ranks.any(world.rank() == 2));
    EXPECT_FALSE(ranks.any(false));
    ranks.compare_devices("a");
    EXPECT_FALSE(ranks.mixed());
    ranks.compare_devices(world.rank() == 1 ? "a" : "b");
    EXPECT_TRUE(ranks.mixed());
  });
}

TEST(Replicas, WhoDiffersIsNamed) {
  const std::vector<std::string> errors = run_ranks(4, [](World& world) {
    Replicas ranks(world);
    ranks.require_equal("options", "the same");
    ranks.require_equal("data", world.rank() % 2 == 0 ? "a" : "b");
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "[train] ranks 1 and 3 have other data than rank 0; all ranks of a run need the same");
}

TEST(Replicas, MeshesThatRanksDoNotMakeUpAreRefused) {
  World alone;
  EXPECT_EQ(Replicas(alone).mesh(), "dp=1");
  EXPECT_EQ(Replicas(alone, "dp=1").mesh(), "dp=1");
  expect_error<ValueError>([&] { Replicas ranks(alone, "dp=2"); }, {"[mesh] dp=2 needs 2 ranks; the world has 1"});
  expect_error<ValueError>([&] { Replicas ranks(alone, "xp=1"); },
                           {"[mesh] xp=1: the axis xp is not known to training"});
  expect_error<ValueError>([&] { Replicas ranks(alone, "dp"); }, {"'dp' is no axis"});
}

// ---- training

class SharedTraining : public TrainsOnRanks {};

// Also where the batch does not divide: each rank counts by its examples.
TEST_P(SharedTraining, LossesAreThoseOfOneProcess) {
  for (const auto& [batch, accumulate] : {std::pair(8, 1), {7, 1}, {5, 3}}) {
    Config c = small_config();
    c.training.batch = batch;
    c.training.accumulate = accumulate;
    const Ran alone = train_alone(c, GetParam());
    ASSERT_EQ(alone.losses.size(), 12u);
    for (const size_t count : {2u, 3u}) {
      const std::vector<Ran> ranks = train_ranks(c, std::vector<std::string>(count, GetParam()));
      for (const Ran& rank : ranks) {
        expect_near(rank.losses, alone.losses, 1e-5);
        EXPECT_EQ(rank.losses, ranks.front().losses);
        EXPECT_EQ(rank.weights, ranks.front().weights);
      }
    }
  }
}

// 640 KB of the second layer's gradient are a list of their own, which leaves before the first layer's are computed.
TEST_P(SharedTraining, ListsThatLeaveEarlyGiveTheSameUpdates) {
  Config c = small_config();
  c.training.steps = 6;
  const Ran alone = train_alone(c, GetParam(), {.width = 400});
  const std::vector<std::string> devices{GetParam(), GetParam()};
  const std::vector<Ran> ranks = train_ranks(c, devices, {.width = 400}),
                         again = train_ranks(c, devices, {.width = 400});
  for (const Ran& rank : ranks) {
    expect_near(rank.losses, alone.losses, 1e-5);
    EXPECT_EQ(rank.weights, ranks.front().weights);
  }
  EXPECT_EQ(again.front().weights, ranks.front().weights);
  EXPECT_EQ(again.front().losses, ranks.front().losses);
}

// Wide enough that what ranks tell each other of windows, as many as the clock says, is no hundredth of the gradients.
TEST_P(SharedTraining, AccumulatedPartsAreSentOnce) {
  Config c = small_config();
  const RunsOfRanks how{.width = 200};
  const std::vector<Ran> one = train_ranks(c, {GetParam(), GetParam()}, how);
  c.training.batch = 4;
  c.training.accumulate = 8;
  const std::vector<Ran> eight = train_ranks(c, {GetParam(), GetParam()}, how);
  EXPECT_LE(static_cast<double>(eight[0].bytes), 1.01 * static_cast<double>(one[0].bytes));
}

// What one rank is told all do, after the same update.
TEST_P(SharedTraining, AnInterruptOfOneRankEndsAll) {
  const Before at_five = [](Trainer& trainer, int rank) {
    if (rank == 1 && trainer.step() == 5) trainer.interrupt();
  };
  for (const Ran& rank : train_ranks(small_config(), {GetParam(), GetParam()}, {.before = at_five})) {
    EXPECT_EQ(rank.outcome, Outcome::interrupted);
    EXPECT_EQ(rank.losses.size(), 6u);
  }
}

TEST_P(SharedTraining, EarlyStoppingEndsWhereOneProcessWould) {
  Config c = small_config();
  c.log.eval_every = 2;
  c.training.early_stop = 2;
  const std::vector<double> evaluations{3, 2, 2, 2};
  const Ran alone = train_alone(c, GetParam(), {.evaluations = evaluations});
  EXPECT_EQ(alone.outcome, Outcome::stopped);
  EXPECT_EQ(alone.losses.size(), 8u);
  for (const Ran& rank : train_ranks(c, {GetParam(), GetParam()}, {.evaluations = evaluations})) {
    EXPECT_EQ(rank.outcome, Outcome::stopped);
    EXPECT_EQ(rank.losses.size(), 8u);
  }
}

// Each of them beside the double-precision device: they round differently, and go on with the first rank's weights.
TEST_P(SharedTraining, DevicesOfSeveralKindsHoldTheSameWeights) {
  const Ran alone = train_alone(small_config(), GetParam());
  std::vector<std::string> devices{GetParam()};
  for (const std::string& id : heddle::test::value_devices()) {
    if (id != GetParam()) devices.push_back(id);
  }
  if (devices.size() == 1) GTEST_SKIP() << "there is one device";
  const std::vector<Ran> ranks = train_ranks(small_config(), devices);
  for (const Ran& rank : ranks) {
    EXPECT_EQ(rank.weights, ranks.front().weights);
    EXPECT_EQ(rank.losses, ranks.front().losses);
    expect_near(rank.losses, alone.losses, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SharedTraining, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

}  // namespace
}  // namespace heddle::train
