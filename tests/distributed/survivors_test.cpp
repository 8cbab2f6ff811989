// Worlds and trainings that go on without ranks that were lost, as threads of one process. As processes:
// elastic_launch_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/distributed/errors.h"
#include "heddle/train/elastic.h"
#include "tests/distributed/rank_threads.h"
#include "tests/distributed/survivor_runs.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using distributed::CommunicationError;
using distributed::Group;
using distributed::LocalWorld;
using distributed::World;
using tests::expect_error;

float sum(World& world, float mine) {
  Group all = world.all();
  all.all_reduce(&mine, DType::f32, {}).wait();
  return mine;
}

// The same, and nobody goes on before all have it.
struct Meeting {
  std::atomic<int> arrived = 0;
  void sum_of_all(World& world) {
    const int ranks = world.size();
    EXPECT_EQ(sum(world, 1), static_cast<float>(ranks));
    ++arrived;
    while (arrived < ranks) std::this_thread::yield();
  }
};

void expect_loss(World& world) {
  expect_error<CommunicationError>([&] { (void)sum(world, 1); }, {"[", "rank"});
  world.renew();
}

TEST(Survivors, MakeASmallerWorldInTheirOrder) {
  Meeting meeting;
  const auto errors = survive(4, [&](const LocalWorld& local, World& world) {
    const int me = world.rank();
    Group before = world.all();
    meeting.sum_of_all(world);
    if (me == 1) return local.lose(1);
    expect_loss(world);
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.rank(), me == 0 ? 0 : me - 1);
    EXPECT_EQ(sum(world, static_cast<float>(me)), 0 + 2 + 3);
    float value = 1;
    expect_error<CommunicationError>([&] { before.all_reduce(&value, DType::f32, {}).wait(); },
                                     {"the world has lost ranks since"});
    EXPECT_EQ(sum(world, 1), 3);
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

// Two at once, and one more of those that went on; one is left.
TEST(Survivors, AreLostAsWell) {
  Meeting meeting;
  std::atomic<int> gone = 0;
  const auto errors = survive(4, [&](const LocalWorld& local, World& world) {
    const int me = world.rank();
    meeting.sum_of_all(world);
    if (me == 0 || me == 2) {
      local.lose(me);
      ++gone;
      return;
    }
    while (gone < 2) std::this_thread::yield();
    expect_loss(world);
    while (world.size() == 3) expect_loss(world);  // the losses may be seen one after the other
    EXPECT_EQ(world.size(), 2);
    EXPECT_EQ(sum(world, static_cast<float>(me)), 1 + 3);
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

TEST(Survivors, EndWithARankThatFailsByItself) {
  Meeting meeting;
  const auto errors = survive(3, [&](const LocalWorld&, World& world) {
    meeting.sum_of_all(world);
    if (world.rank() == 2) return world.give_up();
    expect_loss(world);
  });
  EXPECT_NE(errors[0].find("a rank that failed by itself"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("a rank that failed by itself"), std::string::npos) << errors[1];
}

TEST(Survivors, DoNotGoOnBehindCallsThatDiffer) {
  const auto errors = survive(3, [](const LocalWorld&, World& world) {
    float values[4] = {};
    Group all = world.all();
    expect_error<CommunicationError>([&] { all.all_reduce(values, DType::f32, {world.rank() == 1 ? 2 : 4}).wait(); },
                                     {"[", "rank"});
    world.renew();
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("a rank that failed by itself"), std::string::npos) << error;
}

TEST(Survivors, AWorldThatDoesNotSurviveStaysBroken) {
  distributed::test::run_ranks(2,
                               [](World& world) {
                                 if (world.rank() == 1) return;
                                 expect_error<CommunicationError>([&] { world.renew(); },
                                                                  {"does not go on without a rank"});
                               },
                               {});
  World alone;
  expect_error<CommunicationError>([&] { alone.renew(); }, {"a world of one"});
}

SurvivorState state_of(int64_t step, uint8_t value) {
  SurvivorState state{.step = step, .metadata = {{"step", std::to_string(step)}}};
  state.tensors["model.w"] = {DType::f32, Shape{2}, std::vector<uint8_t>(8, value)};
  state.tensors["scalar"] = {DType::u8, Shape(), {value}};
  state.tensors["empty"] = {DType::f32, Shape{0}, {}};
  for (int64_t s = 1; s <= step; ++s) state.untold.push_back({.step = s, .loss = 0.1 * static_cast<double>(s)});
  return state;
}

TEST(Survivors, TakeTheMostAdvancedState) {
  distributed::test::all_ranks(4, [](World& world) {
    Replicas ranks(world);
    const int me = world.rank();
    // Rank 1 and 3 are an update ahead; rank 2 has nothing yet.
    const int64_t steps[] = {6, 7, -1, 7};
    SurvivorState mine = me == 2 ? SurvivorState{.step = -1} : state_of(steps[me], static_cast<uint8_t>(10 + me));
    mine.untold.resize(std::min<size_t>(mine.untold.size(), static_cast<size_t>(5 + me)));
    const SurvivorState all = most_advanced(ranks, mine);
    const SurvivorState expected = state_of(7, 11);
    EXPECT_EQ(all.step, 7);
    EXPECT_EQ(all.metadata, expected.metadata);
    ASSERT_EQ(all.tensors.size(), 3u);
    for (const auto& [name, tensor] : expected.tensors) {
      EXPECT_EQ(all.tensors.at(name).bytes, tensor.bytes) << name;
      EXPECT_EQ(all.tensors.at(name).shape, tensor.shape) << name;
      EXPECT_EQ(all.tensors.at(name).dtype, tensor.dtype) << name;
    }
    ASSERT_EQ(all.untold.size(), 6u);  // as rank 1 has them
    EXPECT_EQ(all.untold[5].loss, 0.1 * 6);
  });
}

// ---- trainings

class SurvivorsTrain : public TrainsOnRanks {};

TEST_P(SurvivorsTrain, ToTheBitsOfAResumedRun) {
  Config config = small_config();
  config.log.eval_every = 1000;
  for (const Lost lost : {Lost{2, 5}, Lost{0, 7}, Lost{3, 0}}) {
    const Survived left = train_and_lose(4, config, GetParam(), {lost});
    EXPECT_EQ(left.ranks, 3);
    EXPECT_EQ(left.lost.ranks, std::vector<int>{lost.rank});
    EXPECT_EQ(left.lost.left, 3);
    ASSERT_EQ(left.losses.size(), 12u);
    for (const double loss : left.losses) EXPECT_GT(loss, 0);
    if (lost.step == 0) continue;
    const Ran resumed = by_resuming(config, GetParam(), 4, lost.step, 3);
    EXPECT_EQ(left.weights, resumed.weights) << "rank " << lost.rank << " at " << lost.step;
    EXPECT_EQ(std::vector<double>(left.losses.begin() + lost.step, left.losses.end()), resumed.losses);
  }
}

TEST_P(SurvivorsTrain, OneAfterTheOtherUntilOneIsLeft) {
  const Survived left = train_and_lose(3, small_config(), GetParam(), {{0, 3}, {2, 8}});
  EXPECT_EQ(left.ranks, 1);
  EXPECT_EQ(left.lost.ranks, std::vector<int>{2});
  const Ran alone = train_alone(small_config(), GetParam());
  expect_near(left.losses, alone.losses, 1e-4);
}

TEST_P(SurvivorsTrain, FromTheLastCheckpointWhereStatesAreShared) {
  const heddle::test::TemporaryFolder folder;
  Config config = small_config();
  config.training.sharding = "zero1";
  config.checkpoint.every = 2;
  config.checkpoint.beside = false;  // the last one is on the disk
  const Survived left = train_and_lose(3, config, GetParam(), {{1, 7}}, {.folder = folder / "run"}, 0);
  EXPECT_EQ(left.ranks, 2);
  EXPECT_EQ(left.from, 6);
  EXPECT_EQ(left.lost.taken_back, left.lost.told - 6);
  const Ran alone = train_alone(small_config(), GetParam());
  expect_near(left.losses, alone.losses, 1e-4);
}

TEST_P(SurvivorsTrain, WhatNeedsAllRanksIsRefused) {
  const auto refused = [&](const std::function<void(Config&)>& change, const std::string& what) {
    Config config = small_config();
    change(config);
    std::unique_ptr<Task> tasks[] = {task_of({}, device(GetParam())), task_of({}, device(GetParam()))};
    const auto errors = survive(2, [&](const LocalWorld&, World& world) {
      Replicas ranks(world);
      Trainer trainer(*tasks[world.rank()], config, device(GetParam()), &ranks);
    });
    for (const std::string& error : errors)
      EXPECT_NE(error.find("[train] --elastic with " + what), std::string::npos) << error;
  };
  refused([](Config& c) { c.training.parts = 4; }, "--parts");
  refused([](Config& c) { c.training.sharding = "zero3"; }, "--sharding zero3");
}

INSTANTIATE_TEST_SUITE_P(Devices, SurvivorsTrain, testing::Values("reference:0"));

}  // namespace
}  // namespace heddle::train
