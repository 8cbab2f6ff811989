// Ranks that share states of optimizers and go on without one that is lost, by copies that its neighbour has.
#include "heddle/train/buddy_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/train/checkpoint.h"
#include "tests/distributed/survivor_runs.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using distributed::World;

class BuddyCopiesTrain : public TrainsOnRanks {};

Config sharded_config(const std::string& sharding) {
  Config config = small_config();
  config.training.sharding = sharding;
  config.log.eval_every = 1000;
  return config;
}

// From the update behind which they went on the bits are those of a run that so many ranks resumed there.
void expect_resumed(const Survived& left, const Config& config, const std::string& id, size_t ranks,
                    const RunsOfRanks& how = {}) {
  ASSERT_GT(left.from, 0);
  ASSERT_EQ(left.losses.size(), 12u);
  for (const double loss : left.losses) EXPECT_GT(loss, 0);
  const Ran resumed = by_resuming(config, id, ranks, left.from, static_cast<size_t>(left.ranks), how);
  EXPECT_EQ(left.weights, resumed.weights);
  EXPECT_EQ(std::vector<double>(left.losses.begin() + left.from, left.losses.end()), resumed.losses);
}

// A copy may still be on its way when its rank goes, but not when anybody was told of its update.
TEST_P(BuddyCopiesTrain, OfEachUpdateLoseNoneThatWasTold) {
  for (const std::string sharding : {"zero1", "zero2"}) {
    Config config = sharded_config(sharding);
    config.checkpoint.every = 3;  // without a folder: a window of updates ends
    for (const Lost lost : {Lost{2, 6}, Lost{0, 8}, Lost{3, 11}}) {
      SCOPED_TRACE(sharding + ", rank " + std::to_string(lost.rank));
      const Survived left = train_and_lose(4, config, GetParam(), {lost}, {}, 1);
      EXPECT_EQ(left.ranks, 3);
      EXPECT_EQ(left.lost.ranks, std::vector<int>{lost.rank});
      EXPECT_GE(left.lost.told, lost.step / 3 * 3);
      EXPECT_EQ(left.lost.taken_back, 0);
      EXPECT_GE(left.from, lost.step - 1);
      EXPECT_LE(left.from, lost.step);
      expect_resumed(left, config, GetParam(), 4);
    }
  }
}

TEST_P(BuddyCopiesTrain, OfEachFourthUpdateTakeBackThreeAtMost) {
  Config config = sharded_config("zero2");
  config.checkpoint.every = 7;
  const Survived left = train_and_lose(4, config, GetParam(), {{1, 7}}, {}, 4);
  EXPECT_EQ(left.from, 4);
  EXPECT_EQ(left.lost.told, 7);
  EXPECT_EQ(left.lost.taken_back, 3);
  expect_resumed(left, config, GetParam(), 4);
}

// Before the first copy of an update there is one of the beginning.
TEST_P(BuddyCopiesTrain, OfTheBeginning) {
  const Config config = sharded_config("zero1");
  const Survived left = train_and_lose(3, config, GetParam(), {{1, 5}}, {}, 100);
  EXPECT_EQ(left.from, 0);
  EXPECT_EQ(left.ranks, 2);
  EXPECT_EQ(left.losses, train_ranks(config, on(2)).at(0).losses);
}

// Optimizers that look at whole parameters have states of whole ones; f16 has a loss scale besides.
TEST_P(BuddyCopiesTrain, OfAnyOptimizer) {
  for (const std::string name : {"sgd", "lamb", "muon"}) {
    SCOPED_TRACE(name);
    Config config = sharded_config("zero1");
    config.optimizer.name = name;
    config.training.ema = name == "lamb" ? 0.9 : 0;
    const Survived left = train_and_lose(4, config, GetParam(), {{2, 7}}, {}, 2);
    EXPECT_GE(left.from, 6);
    expect_resumed(left, config, GetParam(), 4);
  }
  Config half = sharded_config("zero2");
  half.training.precision = "f16";
  expect_resumed(train_and_lose(4, half, GetParam(), {{0, 9}}, {}, 2), half, GetParam(), 4);
}

TEST_P(BuddyCopiesTrain, OfModelsThatAreFrozenInPart) {
  const RunsOfRanks how{.make = [](DeviceContext& device) {
    auto task = std::make_unique<SmallTask>(1, 0, device);
    task->model().parameters().front().set_requires_grad(false);
    return task;
  }};
  const Config config = sharded_config("zero1");
  expect_resumed(train_and_lose(3, config, GetParam(), {{2, 7}}, how, 2), config, GetParam(), 3, how);
}

TEST_P(BuddyCopiesTrain, OneAfterTheOtherUntilOneIsLeft) {
  const Survived left = train_and_lose(3, sharded_config("zero1"), GetParam(), {{0, 3}, {2, 8}}, {}, 1);
  EXPECT_EQ(left.ranks, 1);
  EXPECT_EQ(left.lost.ranks, std::vector<int>{2});
  EXPECT_GE(left.from, 7);
  expect_near(left.losses, train_alone(small_config(), GetParam()).losses, 1e-4);
}

// ---- which of several losses leave all parts

// What each of four ranks has behind the last update, and the checkpoint of it.
struct Left {
  std::vector<std::vector<BuddyCopy>> copies{4};
  Checkpoint checkpoint;
};

Left copies_of_four(const std::string& id) {
  const heddle::test::TemporaryFolder folder;
  Config config = sharded_config("zero1");
  Left left;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < 4; ++rank) tasks.push_back(task_of({}, device(id)));
  const auto errors = survive(4, [&](const distributed::LocalWorld&, World& world) {
    const auto me = static_cast<size_t>(world.rank());
    Replicas ranks(world);
    Trainer trainer(*tasks[me], config, device(id), &ranks);
    std::optional<RunFolder> files;
    if (ranks.leads()) trainer.write_to(files.emplace(folder / "run", false));
    trainer.set_copies_every(6);
    trainer.run();
    left.copies[me] = trainer.remains().copies;
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
  left.checkpoint = load_latest_checkpoint(folder / "run/checkpoints", &device(id)).value().checkpoint;
  return left;
}

// What the ranks of `left` make of it as a world of their own.
std::vector<std::optional<SurvivorState>> joined(const Left& left, const std::vector<size_t>& ranks) {
  std::vector<std::optional<SurvivorState>> states(ranks.size());
  distributed::test::all_ranks(static_cast<int>(ranks.size()), [&](World& world) {
    const auto me = static_cast<size_t>(world.rank());
    Replicas replicas(world);
    states[me] = joined_copies(replicas, left.copies[ranks[me]]);
  });
  return states;
}

TEST_P(BuddyCopiesTrain, AreWholeUnlessNeighboursAreLost) {
  const Left left = copies_of_four(GetParam());
  for (const std::vector<BuddyCopy>& copies : left.copies) {
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_EQ(copies[0].step, 12);
    EXPECT_EQ(copies[1].step, 6);
  }
  for (const std::vector<size_t>& ranks : {std::vector<size_t>{0, 1, 2, 3}, {1, 2, 3}, {0, 2}, {1, 3}}) {
    for (const std::optional<SurvivorState>& state : joined(left, ranks)) {
      ASSERT_TRUE(state.has_value());
      EXPECT_EQ(state->step, 12);
      EXPECT_EQ(state->tensors.size(), left.checkpoint.tensors.size());
      for (const auto& [name, tensor] : left.checkpoint.tensors) {
        ASSERT_TRUE(state->tensors.contains(name)) << name;
        EXPECT_EQ(state->tensors.at(name).bytes, tensor.to_bytes()) << name;
        EXPECT_EQ(state->tensors.at(name).shape, tensor.shape()) << name;
      }
    }
  }
  for (const std::vector<size_t>& ranks : {std::vector<size_t>{0, 3}, {2}, {0, 1}}) {
    for (const std::optional<SurvivorState>& state : joined(left, ranks)) EXPECT_FALSE(state.has_value());
  }
}

// The last copy came to some ranks alone: the one before it is everybody's.
TEST_P(BuddyCopiesTrain, OfTheUpdateThatAllHave) {
  Left left = copies_of_four(GetParam());
  left.copies[3].front().owner_before = -1;  // rank 2's part was on its way
  for (const std::optional<SurvivorState>& state : joined(left, {0, 1, 3})) {
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->step, 6);
  }
  left.copies[1].erase(left.copies[1].begin());  // it had not made one yet
  for (const std::optional<SurvivorState>& state : joined(left, {0, 1, 2, 3})) EXPECT_EQ(state.value().step, 6);
  left.copies[1].clear();
  for (const std::optional<SurvivorState>& state : joined(left, {0, 1, 2, 3})) EXPECT_FALSE(state.has_value());
}

INSTANTIATE_TEST_SUITE_P(Devices, BuddyCopiesTrain, testing::Values("reference:0"));

}  // namespace
}  // namespace heddle::train
