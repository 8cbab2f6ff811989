// Ranks that hold up the others (train/rank_pace.h), as threads of one process that sleep instead of computing.
#include "heddle/train/rank_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/distributed/train_ranks.h"

namespace heddle::train {
namespace {

using Milliseconds = std::chrono::milliseconds;

// What each window names, on rank 0; by window and rank how long an update takes.
std::vector<std::vector<Straggler>> named(const std::vector<std::vector<int>>& milliseconds) {
  std::vector<std::vector<Straggler>> found;
  const auto ranks = static_cast<int>(milliseconds.front().size());
  distributed::test::all_ranks(ranks, [&](distributed::World& world) {
    Replicas replicas(world);
    RankPace pace(replicas);
    for (const std::vector<int>& window : milliseconds) {
      pace.open();
      for (int update = 0; update < 3; ++update) {
        std::this_thread::sleep_for(Milliseconds(window[static_cast<size_t>(world.rank())]));
        (void)replicas.any(false);  // where the others wait
      }
      const std::vector<Straggler> slow = pace.close(3);
      if (world.rank() == 0) found.push_back(slow);
    }
    EXPECT_EQ(pace.seconds().size(), world.size() == 1 ? 0u : static_cast<size_t>(world.size()));
  });
  return found;
}

TEST(RankPace, NamesOnceWhoIsSlowTwice) {
  const auto found = named({{10, 90, 10}, {10, 90, 10}, {10, 90, 10}, {10, 90, 10}});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_TRUE(found[0].empty() && found[1].empty() && found[3].empty());
  ASSERT_EQ(found[2].size(), 1u);
  EXPECT_EQ(found[2][0].rank, 1);
  EXPECT_GE(found[2][0].seconds, 0.09);
  EXPECT_GE(found[2][0].others, 0.01);
  EXPECT_LT(found[2][0].others, 0.06);  // without the time in which they waited
}

TEST(RankPace, IsSilentWhereNobodyIsSlowForLong) {
  for (const auto& window : named({{1, 60}, {60, 1}, {1, 60}, {60, 1}})) EXPECT_TRUE(window.empty());
  for (const auto& window : named({{20}, {20}, {20}})) EXPECT_TRUE(window.empty());
}

struct Named final : Callback {
  void on_straggler(Trainer& trainer, const Straggler& straggler) override {
    ranks.push_back(straggler.rank);
    steps.push_back(trainer.step());
  }
  std::vector<int> ranks;
  std::vector<int64_t> steps;
};

TEST(RankPace, ATrainingNamesARankWithinTwentySteps) {
  Config c = small_config();
  c.training.steps = 20;
  c.log.eval_every = 4;  // windows end there
  std::vector<double> seconds;
  std::shared_ptr<Named> told;
  const RunsOfRanks how{.before =
                            [&](Trainer& trainer, int rank) {
                              if (rank == 0 && !told) trainer.add(told = std::make_shared<Named>());
                              std::this_thread::sleep_for(Milliseconds(rank == 1 ? 30 : 3));
                            },
                        .after =
                            [&](const Trainer& trainer, Replicas* ranks) {
                              if (ranks->leads()) seconds = trainer.report().rank_seconds;
                            }};
  (void)train_ranks(c, {"reference:0", "reference:0"}, how);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->ranks, std::vector<int>{1});
  ASSERT_EQ(seconds.size(), 2u);
  EXPECT_GT(seconds[1], 1.5 * seconds[0]);
}

}  // namespace
}  // namespace heddle::train
