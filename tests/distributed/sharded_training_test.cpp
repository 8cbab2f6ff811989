// Ranks that share gradients and states of optimizers (train/sharded_step.h), as threads of one process: losses, bits,
// bytes and memory beside ranks that do not, and beside one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/train/replicas.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using distributed::World;
using tests::expect_error;
using Names = std::vector<std::string>;

std::unique_ptr<Task> deep_task(DeviceContext& device) {
  return std::make_unique<LayersTask>(std::vector<int64_t>{5, 12, 9, 12, 3}, device);
}

// Of several buckets.
std::unique_ptr<Task> bucketed_task(DeviceContext& device) {
  return std::make_unique<LayersTask>(std::vector<int64_t>{5, 256, 256, 256, 3}, device);
}

Config sharded(Config c, const std::string& sharding) {
  c.training.sharding = sharding;
  return c;
}

class ShardedTraining : public TrainsOnRanks {};

void expect_same(const std::vector<Ran>& ranks) {
  for (const Ran& rank : ranks) {
    EXPECT_EQ(rank.weights, ranks.front().weights);
    EXPECT_EQ(rank.losses, ranks.front().losses);
  }
}

// Also where the batch does not divide, with clipping, averages and accumulation.
TEST_P(ShardedTraining, LossesAreThoseOfOneProcess) {
  for (const auto& [batch, accumulate] : {std::pair(8, 1), {7, 1}, {5, 3}}) {
    Config c = small_config();
    c.training.batch = batch;
    c.training.accumulate = accumulate;
    const Ran alone = train_alone(c, GetParam());
    for (const auto& [stage, count] : {std::pair("zero1", 2u), {"zero2", 3u}, {"zero3", 3u}}) {
      const std::vector<Ran> ranks = train_ranks(sharded(c, stage), on(count));
      expect_same(ranks);
      expect_near(ranks.front().losses, alone.losses, 1e-5);
    }
  }
}

// Without a norm, whose squares are added in another order, they are the bits of ranks that share no state.
TEST_P(ShardedTraining, BitsAreThoseOfRanksThatShareNothing) {
  Names optimizers{"adamw", "muon"};
  const auto& all = find_config_row("optimizer.name")->check.choices;
  if (GetParam() == "reference:0") optimizers.assign(all.begin(), all.end());
  for (const std::string& optimizer : optimizers) {
    Config c = small_config();
    c.training.clip_norm = 0;
    c.training.steps = 4;
    c.optimizer.name = optimizer;
    c.optimizer.weight_decay = 0.1;
    const RunsOfRanks how{.make = deep_task};
    const std::vector<Ran> plain = train_ranks(c, on(2), how);
    for (const std::string stage : {"zero1", "zero2"}) {
      const std::vector<Ran> ranks = train_ranks(sharded(c, stage), on(2), how);
      expect_same(ranks);
      EXPECT_EQ(ranks.front().losses, plain.front().losses) << optimizer << " " << stage;
      EXPECT_EQ(ranks.front().weights, plain.front().weights) << optimizer << " " << stage;
    }
  }
}

TEST_P(ShardedTraining, RunsAreRepeatedBitForBit) {
  for (const std::string stage : {"zero2", "zero3"}) {
    const Config c = sharded(small_config(), stage);
    const std::vector<Ran> first = train_ranks(c, on(3)), again = train_ranks(c, on(3));
    EXPECT_EQ(first.front().losses, again.front().losses);
    EXPECT_EQ(first.front().weights, again.front().weights);
  }
}

// Of several buckets, which come for the forward pass and again for the backward pass, or stay.
TEST_P(ShardedTraining, GatheredBucketsGiveTheLossesOfOneProcess) {
  Config c = small_config();
  c.training.steps = 6;
  const RunsOfRanks how{.make = bucketed_task};
  const Ran alone = train_alone(c, GetParam(), how);
  const std::vector<Ran> ranks = train_ranks(sharded(c, "zero3"), on(2), how);
  expect_same(ranks);
  expect_near(ranks.front().losses, alone.losses, 1e-5);
  c.training.reshard = false;
  const std::vector<Ran> kept = train_ranks(sharded(c, "zero3"), on(2), how);
  EXPECT_EQ(kept.front().losses, ranks.front().losses);
  EXPECT_EQ(kept.front().weights, ranks.front().weights);
  EXPECT_LT(kept.front().bytes, ranks.front().bytes);
}

// What is evaluated are averages of all ranks' elements, whose parameters are trained on with afterwards.
TEST_P(ShardedTraining, EvaluationsSeeAverages) {
  if (GetParam() != "reference:0") GTEST_SKIP() << "the same on every device";
  Config c = small_config();
  c.training.steps = 4;
  c.log.eval_every = 2;
  const auto evaluated = [&](const std::string& sharding) {
    std::vector<double> losses;
    const RunsOfRanks how{.width = 256, .after = [&](const Trainer& trainer, Replicas* ranks) {
                            if (ranks == nullptr || ranks->rank() == 1) losses.push_back(trainer.evaluation().loss);
                          }};
    const Ran ran =
        sharding == "none" ? train_alone(c, GetParam(), how) : train_ranks(sharded(c, sharding), on(2), how).front();
    losses.insert(losses.end(), ran.losses.begin(), ran.losses.end());
    return losses;
  };
  expect_near(evaluated("zero3"), evaluated("none"), 1e-5);
}

// One process that computes in parts cuts the step where ranks do.
TEST_P(ShardedTraining, PartsGiveTheSameBitsOnAnyNumberOfRanks) {
  Config c = sharded(small_config(), "zero3");
  c.training.steps = 4;
  c.training.parts = 4;
  const RunsOfRanks how{.make = bucketed_task};
  const Ran alone = train_alone(c, GetParam(), how);
  for (const size_t count : {2u, 4u}) {
    const std::vector<Ran> ranks = train_ranks(c, on(count), how);
    expect_same(ranks);
    EXPECT_EQ(ranks.front().losses, alone.losses) << count;
    EXPECT_EQ(ranks.front().weights, alone.weights) << count;
  }
}

// Pairs of ranks that own all elements together: gradients are added within them first, as the tree of all four does.
TEST_P(ShardedTraining, GroupsOfOwnersGiveTheBitsOfAll) {
  Config c = small_config();
  c.training.clip_norm = 0;
  c.training.steps = 4;
  const RunsOfRanks how{.make = bucketed_task}, pairs{.mesh = "dp=2,fsdp=2", .make = bucketed_task};
  for (const std::string stage : {"zero1", "zero2", "zero3"}) {
    const std::vector<Ran> ranks = train_ranks(sharded(c, stage), on(4), pairs),
                           all = train_ranks(sharded(c, stage), on(4), how);
    expect_same(ranks);
    EXPECT_EQ(ranks.front().losses, all.front().losses) << stage;
    EXPECT_EQ(ranks.front().weights, all.front().weights) << stage;
    // Parameters come from the neighbour alone.
    const double sent = static_cast<double>(ranks.front().bytes) / static_cast<double>(all.front().bytes);
    EXPECT_NEAR(sent, stage == "zero3" ? 0.8 : 1, stage == "zero3" ? 0.1 : 0.02) << stage;
  }
}

// Under a norm, of whose squares each group has all; in parts it is exact.
TEST_P(ShardedTraining, NormsCountEachElementOfGroupsOnce) {
  Config c = small_config();
  c.training.clip_norm = 0.1;
  const std::vector<double> alone = train_alone(c, GetParam()).losses;
  const RunsOfRanks pairs{.mesh = "dp=2,fsdp=2"};
  expect_near(train_ranks(sharded(c, "zero1"), on(4), pairs).front().losses, alone, 1e-5);
}

// With parts of a size that no other test has: a plan that these have made for any batch rounds
// otherwise, and only one of the two runs may meet it.
TEST_P(ShardedTraining, NormsOfPartsCountEachElementOfGroupsOnce) {
  Config c = small_config();
  c.training.clip_norm = 0.1;
  c.training.parts = 4;
  c.training.batch = 4;
  const std::vector<Ran> parts = train_ranks(sharded(c, "zero2"), on(4), {.mesh = "dp=2,fsdp=2"});
  EXPECT_EQ(parts.front().weights, train_alone(c, GetParam()).weights);
}

TEST(ShardedStep, OtherGroupsOfOwnersAreRefused) {
  DeviceContext& where = device("reference:0");
  for (const auto& [sharding, mesh, line] :
       {std::tuple("zero1", "fsdp=2,dp=2",
                   "[mesh] fsdp=2,dp=2: fsdp stands alone, or behind dp: neighbouring ranks share states"),
        {"zero1", "tp=2,fsdp=2",
         "[mesh] tp=2,fsdp=2: fsdp stands alone, or behind dp: neighbouring ranks share states"},
        {"none", "dp=2,fsdp=2",
         "[mesh] dp=2,fsdp=2: what ranks along fsdp share is said by --sharding zero1, zero2 or zero3"}}) {
    std::vector<std::unique_ptr<Task>> tasks;  // made here: the ranks, threads, share one random generator
    for (int rank = 0; rank < 4; ++rank) tasks.push_back(deep_task(where));
    const Names errors = distributed::test::run_ranks(4, [&](World& ranks) {
      Replicas replicas(ranks, mesh);
      Trainer trainer(*tasks[static_cast<size_t>(ranks.rank())], sharded(small_config(), sharding), where, &replicas);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, line);
  }
}

// A loss scale that overflows at first, values that are clipped, 8 bits, two optimizers under one limit.
TEST_P(ShardedTraining, NormsAndScalesAreOfTheWhole) {
  Config scaled = small_config(), cut = small_config(), muon = small_config();
  scaled.training.precision = "f16";
  scaled.training.loss_scale = 1e8;
  cut.training.clip_value = 0.02;
  muon.optimizer.name = "muon";
  muon.training.clip_norm = 0.1;
  std::vector<std::pair<Config, double>> cases{{scaled, 2e-3}};
  if (GetParam() == "reference:0") cases.insert(cases.end(), {{cut, 1e-5}, {muon, 1e-5}});
  for (const auto& [config, near] : cases) {
    const RunsOfRanks how{.make = deep_task};
    const Ran alone = train_alone(config, GetParam(), how);
    for (const std::string stage : {"zero1", "zero3"}) {
      const std::vector<Ran> ranks = train_ranks(sharded(config, stage), on(3), how);
      expect_same(ranks);
      expect_near(ranks.front().losses, alone.losses, near);
    }
  }
}

// As much as ranks that share nothing: gradients to their owners, parameters back; under stage 3 half as much again, as
// parameters come twice, but for the last bucket of the forward pass, with which the backward pass begins.
TEST_P(ShardedTraining, AsManyBytesTravel) {
  if (GetParam() != "reference:0") GTEST_SKIP() << "the same on every device";
  Config c = small_config();
  c.training.clip_norm = 0;
  c.training.steps = 6;
  c.log.eval_every = 6;
  const double gradients = 4.0 * (5 * 256 + 256 + 2 * (256 * 256 + 256) + 256 * 3 + 3);
  for (const auto& [stage, times] : {std::pair("zero1", 2), {"zero2", 2}, {"zero3", 3}}) {
    for (const size_t count : {2u, 4u}) {
      const std::vector<Ran> ranks = train_ranks(sharded(c, stage), on(count), {.make = bucketed_task});
      const auto n = static_cast<double>(count);
      for (const Ran& rank : ranks) {
        const double sent = static_cast<double>(rank.bytes) / 6 / ((n - 1) / n * gradients);
        EXPECT_LE(sent, 1.08 * times) << stage << count;
        EXPECT_GE(sent, times == 3 ? 2.4 : 1.9) << stage << count;
      }
    }
  }
}

// Bytes of tensors on a device, without temporaries of steps.
uint64_t held_on(DeviceContext& device) {
  const MemoryUse use = device.memory_use();
  return use.live - use.arena;
}

// Looked at again and again while `work` runs.
uint64_t most_held_on(DeviceContext& device, const std::function<void()>& work) {
  std::atomic<bool> over{false};
  std::atomic<uint64_t> most{0};
  std::thread looking([&] {
    while (!over) {
      most = std::max(most.load(), held_on(device));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  work();
  over = true;
  looking.join();
  return most;
}

// f32 AdamW on four ranks, which share the device: what each holds between two updates and, at most, in them, of a
// model of many buckets, of which stage 2 holds two. The reference device has temporaries among its tensors: a small
// one.
TEST_P(ShardedTraining, EachHoldsStatesOfItsShardsAlone) {
  if (GetParam() == "vulkan:0") GTEST_SKIP() << "the same as on other devices with kernels";
  constexpr size_t count = 4;
  const bool small = GetParam() == "reference:0";
  std::vector<int64_t> widths(small ? 4 : 26, 256);
  widths.front() = 5;
  widths.back() = 3;
  const auto inner = static_cast<double>(widths.size() - 3);
  constexpr double n = count;
  const double parameters = 4.0 * (5 * 256 + 256 + inner * (256 * 256 + 256) + 256 * 3 + 3);
  Config c = small_config();
  c.training.ema = 0;
  c.training.steps = 4;
  DeviceContext& where = device(GetParam());
  // Of a rank, in bytes of a parameter of 4.
  struct Held {
    double between, most;
  };
  const auto held = [&](const std::string& sharding, const std::string& mesh = {}) {
    uint64_t between = 0;
    const RunsOfRanks how{.mesh = mesh,
                          .make = [&](DeviceContext& d) { return std::make_unique<LayersTask>(widths, d); },
                          .after =
                              [&](const Trainer&, Replicas* ranks) {
                                (void)ranks->any(false);
                                where.synchronize();
                                if (ranks->leads()) between = held_on(where);
                                (void)ranks->any(false);
                              }};
    const uint64_t before = held_on(where);
    const uint64_t most = most_held_on(where, [&] { (void)train_ranks(sharded(c, sharding), on(count), how); });
    const double unit = n * parameters / 4;
    return Held{static_cast<double>(between - before) / unit, static_cast<double>(most - before) / unit};
  };
  EXPECT_NEAR(held("none").between, 16, 0.05 * 16);
  // Of stage 3 parameters lie with the host between two updates; a block is a layer here.
  const double block = 4.0 * 4 * (256 * 256 + 256) / parameters;
  for (const std::string stage : {"zero1", "zero2", "zero3"}) {
    const Held found = held(stage);
    EXPECT_NEAR(found.between, (stage == "zero3" ? 0 : 4) + 8 / n, 0.05 * 6) << stage;
    // The reference keeps every value of a step until the step is over.
    const double state = stage == "zero1" ? 8 + 8 / n : stage == "zero2" ? 4 + 12 / n : 16 / n + 2 * block;
    EXPECT_LE(found.most, small ? 16 : 1.05 * state) << stage;
    RecordProperty(stage, std::to_string(found.most));
  }
  EXPECT_NEAR(held("zero1", "dp=2,fsdp=2").between, 4 + 8 / 2, 0.05 * 8) << "of pairs";
}

TEST_P(ShardedTraining, DevicesOfSeveralKindsHoldTheSameWeights) {
  const Ran alone = train_alone(small_config(), GetParam());
  Names devices{GetParam()};
  for (const std::string& id : heddle::test::value_devices()) {
    if (id != GetParam()) devices.push_back(id);
  }
  if (devices.size() == 1) GTEST_SKIP() << "there is one device";
  const std::vector<Ran> ranks = train_ranks(sharded(small_config(), "zero1"), devices);
  expect_same(ranks);
  expect_near(ranks.front().losses, alone.losses, 1e-4);
}

TEST_P(ShardedTraining, AnInterruptOfOneRankEndsAll) {
  const Before at_five = [](Trainer& trainer, int rank) {
    if (rank == 1 && trainer.step() == 5) trainer.interrupt();
  };
  for (const Ran& rank : train_ranks(sharded(small_config(), "zero2"), on(2), {.before = at_five})) {
    EXPECT_EQ(rank.outcome, Outcome::interrupted);
    EXPECT_EQ(rank.losses.size(), 6u);
  }
}

TEST(ShardedStep, WhatDoesNotExistIsRefused) {
  DeviceContext& where = device("reference:0");
  SmallTask task(1, 0, where);
  SmallTask other(1, 0, where);  // made here: the ranks, threads, share one random generator
  const Names errors = distributed::test::run_ranks(2, [&](World& ranks) {
    Replicas replicas(ranks);
    Config c = sharded(small_config(), "zero1");
    c.log.histograms_every = 1;
    Trainer trainer(ranks.rank() == 0 ? task : other, c, where, &replicas);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "[train] --histograms-every with --sharding: no rank has all gradients");
}

INSTANTIATE_TEST_SUITE_P(Devices, ShardedTraining, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

}  // namespace
}  // namespace heddle::train
