// Batches in parts (train/batch_parts.h): the same bits by 1, 2 and 4 ranks, which are threads of one process, with and
// without shards, and the losses of accumulation. As processes: train_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/nn/norm.h"
#include "heddle/train/batch_parts.h"
#include "heddle/train/exact_squares.h"
#include "heddle/train/part_sum.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using distributed::World;
using tests::expect_error;
using Names = std::vector<std::string>;

// ---- sums

// Numbers whose sum depends on the order.
std::vector<float> list_of(int64_t place, size_t count) {
  data::Random random(3, 0, static_cast<uint64_t>(place));
  std::vector<float> values(count);
  for (float& value : values) value = random.uniform(-1, 1) * std::pow(10.0f, random.uniform(-6, 6));
  return values;
}

TEST(PartSum, IsTheTreeOfAllListsHoweverTheyAreShared) {
  constexpr size_t count = 37;
  for (const int64_t parts : {1, 2, 8}) {
    std::vector<std::vector<float>> level;
    for (int64_t p = 0; p < parts; ++p) level.push_back(list_of(p, count));
    while (level.size() > 1) {
      std::vector<std::vector<float>> next;
      for (size_t i = 0; i < level.size(); i += 2) {
        next.push_back(level[i]);
        for (size_t k = 0; k < count; ++k) next.back()[k] = level[i][k] + level[i + 1][k];
      }
      level = next;
    }
    for (int64_t ranks = 1; ranks <= parts; ranks *= 2) {
      distributed::test::all_ranks(static_cast<int>(ranks), [&](World& world) {
        Replicas replicas(world);
        PartSum sum;
        for (int again = 0; again < 2; ++again) {
          std::vector<float> last;
          for (int64_t p = 0; p < parts / ranks; ++p) {
            if (p > 0) sum.add(std::move(last));
            last = list_of(world.rank() * (parts / ranks) + p, count);
          }
          sum.finish(last);
          replicas.sum(last);
          EXPECT_EQ(last, level.front()) << parts << " parts on " << ranks;
        }
      });
    }
  }
}

TEST(ExactSquares, RoundOnceInAnyOrder) {
  const std::vector<float> values = list_of(1, 1001);
  long double expected = 0;
  for (const float value : values) expected += static_cast<long double>(value) * static_cast<long double>(value);
  ExactSquares all, backwards, shared;
  all.add(values);
  backwards.add(std::vector<float>(values.rbegin(), values.rend()));
  for (size_t from = 0; from < values.size(); from += 143) {
    ExactSquares part;
    part.add(std::span(values).subspan(from, 143));
    shared.add_numbers(part.numbers());
  }
  EXPECT_FLOAT_EQ(all.root(), static_cast<float>(std::sqrt(expected)));
  EXPECT_EQ(all.numbers(), backwards.numbers());
  EXPECT_EQ(all.numbers(), shared.numbers());
  EXPECT_EQ(ExactSquares().root(), 0);
}

TEST(ExactSquares, HoldEveryNumber) {
  using Limits = std::numeric_limits<float>;
  const auto root = [](std::vector<float> values, double limit = 0) {
    ExactSquares squares(limit);
    squares.add(values);
    return squares.root();
  };
  for (const float value : {Limits::denorm_min(), Limits::min(), 1e-30f, 1.0f, 3.25f, 1e20f, Limits::max()})
    EXPECT_EQ(root({value, -0.0f}), value);
  EXPECT_EQ(root({-3, 4}), 5);
  EXPECT_EQ(root({Limits::max(), Limits::max()}), Limits::infinity());
  EXPECT_EQ(root({1, -Limits::infinity()}), Limits::infinity());
  EXPECT_TRUE(std::isnan(root({Limits::infinity(), Limits::quiet_NaN()})));
  EXPECT_EQ(root({-7, Limits::infinity(), 0.5f}, 0.5), std::sqrt(0.75f));
}

// ---- chance

// Of each part of an update the first numbers that it draws.
std::vector<std::vector<float>> drawn(const Config& c, World& world, int64_t step, DeviceContext& where) {
  SmallTask task(1, 0, where);
  Replicas replicas(world);
  BatchParts batch(task.model(), c, replicas);
  std::vector<std::vector<float>> numbers;
  batch.begin(step);
  const std::vector<Tensor> whole(parts_of_rank(c, &replicas), zeros(Shape{2}, DType::f32, &where));
  batch.each(whole, [&](const std::vector<Tensor>&, bool) {
    numbers.push_back(uniform(Shape{3}, 0, 1, &where).to_vector<float>());
  });
  return numbers;
}

TEST(BatchParts, ChanceIsThatOfThePartsPlace) {
  DeviceContext& where = device("reference:0");
  Config c = small_config();
  c.training.parts = 4;
  World alone;
  const std::vector<std::vector<float>> all = drawn(c, alone, 7, where), later = drawn(c, alone, 8, where);
  ASSERT_EQ(all.size(), 4u);
  for (size_t p = 0; p < 4; ++p) {
    EXPECT_NE(all[p], all[(p + 1) % 4]);
    EXPECT_NE(all[p], later[p]);
  }
  c.run.seed = 2;
  EXPECT_NE(drawn(c, alone, 7, where), all);
  c.run.seed = 1;
  EXPECT_EQ(drawn(c, alone, 7, where), all);
}

// ---- training

// With all that depends on who computes what: masks, statistics of batches, their running averages.
class ChanceTask final : public NetworkTask {
 public:
  explicit ChanceTask(DeviceContext& device)
      : NetworkTask(device, [&](nn::Sequential& model) {
          model.append(nn::Linear(5, 19, {.device = device}));
          model.append(nn::BatchNorm(19, {.device = device}));
          model.append(nn::Tanh());
          model.append(nn::Dropout(0.3));
          model.append(nn::Linear(19, 3, {.device = device}));
        }) {}
};

Config in_four(const std::string& sharding = "none") {
  Config c = small_config();
  c.training.parts = 4;
  c.training.clip_norm = 0.2;
  c.training.sharding = sharding;
  return c;
}

std::string buffers_of(const Trainer& trainer) {
  std::string text;
  for (const auto& [name, buffer] : trainer.task().model().named_buffers()) {
    for (const float value : buffer.to_vector<float>()) text += std::to_string(value) + " ";
  }
  return text;
}

class PartsTraining : public TrainsOnRanks {
 protected:
  static RunsOfRanks with_chance(std::string* buffers = nullptr) {
    return {.make = [](DeviceContext& d) { return std::make_unique<ChanceTask>(d); },
            .after =
                [buffers](const Trainer& trainer, Replicas* ranks) {
                  if (buffers != nullptr && (ranks == nullptr || ranks->leads())) *buffers = buffers_of(trainer);
                }};
  }
};

TEST_P(PartsTraining, OneTwoAndFourRanksGiveTheSameBits) {
  std::string buffers, others;
  const Ran alone = train_alone(in_four(), GetParam(), with_chance(&buffers));
  EXPECT_FALSE(buffers.empty());
  for (const auto& [sharding, count] : {std::pair("none", 2u), {"none", 4u}, {"zero1", 4u}, {"zero2", 2u}}) {
    for (const Ran& rank : train_ranks(in_four(sharding), on(count), with_chance(&others))) {
      EXPECT_EQ(rank.losses, alone.losses) << sharding << " " << count;
      EXPECT_EQ(rank.weights, alone.weights) << sharding << " " << count;
    }
    EXPECT_EQ(others, buffers) << sharding << " " << count;
  }
}

// Two optimizers under one limit, values that are cut, a loss scale that overflows at first.
TEST_P(PartsTraining, NormsAreTheSameBitsUnderEveryLimit) {
  Config muon = in_four("zero1"), cut = in_four("zero2"), scaled = in_four("zero1");
  muon.optimizer.name = "muon";
  cut.training.clip_value = 0.02;
  scaled.training.precision = "f16";
  scaled.training.loss_scale = 1e8;
  std::vector<Config> cases{scaled};
  if (GetParam() == "reference:0") cases.insert(cases.end(), {muon, cut});
  for (Config& c : cases) {
    const std::vector<Ran> ranks = train_ranks(c, on(2), with_chance());
    c.training.sharding = "none";
    const Ran alone = train_alone(c, GetParam(), with_chance());
    EXPECT_EQ(ranks.front().losses, alone.losses) << c.optimizer.name << " " << c.training.precision;
    EXPECT_EQ(ranks.back().weights, alone.weights) << c.optimizer.name << " " << c.training.precision;
  }
}

TEST_P(PartsTraining, LossesAreThoseOfAccumulation) {
  Config parts = in_four(), batches = small_config();
  batches.training.clip_norm = parts.training.clip_norm;
  batches.training.batch = 2;
  batches.training.accumulate = 4;
  expect_near(train_alone(parts, GetParam()).losses, train_alone(batches, GetParam()).losses, 1e-5);
}

// A run goes on with other ranks.
TEST_P(PartsTraining, AResumedRunGivesTheSameBits) {
  if (GetParam() != "reference:0") GTEST_SKIP() << "the same on every device";
  const heddle::test::TemporaryFolder folder;
  const Ran whole = train_alone(in_four(), GetParam(), with_chance());
  Config half = in_four("zero2");
  half.training.limit_steps = 5;
  RunsOfRanks how = with_chance();
  how.folder = folder / "run";
  (void)train_ranks(half, on(4), how);
  how.resume = true;
  EXPECT_EQ(train_alone(in_four(), GetParam(), how).weights, whole.weights);
  Config other = in_four();
  other.training.parts = 8;
  expect_error<ValueError>([&] { (void)train_alone(other, GetParam(), how); }, {"4 parts", "8 parts"});
}

INSTANTIATE_TEST_SUITE_P(Devices, PartsTraining, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

TEST(BatchParts, WhatDoesNotDivideIsRefused) {
  DeviceContext& where = device("reference:0");
  const auto refused = [&](const Config& c, const char* line) {
    SmallTask task(1, 0, where);
    expect_error<ValueError>([&] { Trainer trainer(task, c, where); }, {line});
  };
  Config c = small_config();
  c.training.parts = 3;
  refused(c, "[train] --parts 3: gradients are added in pairs: 1, 2, 4, 8 ... parts");
  c.training.parts = 16;
  refused(c, "[train] --parts 16 of a batch of 8: parts are of one size");
  c.training.parts = 4;
  c.training.accumulate = 2;
  refused(c, "[train] --parts 4 with --accumulate 2: a batch of 16 in parts is the same update");
  c.training.accumulate = 1;
  c.data.mixup = 0.1;
  refused(c, "[train] --parts 4 with --mixup: a rank mixes the examples that it has");
  expect_error<ValueError>([] { (void)in_parts({data::Array::of(std::vector<float>(3), {3})}, 2); },
                           {"[train] 2 parts of an array of (3): its rows do not divide"});
  const Names errors = distributed::test::run_ranks(3, [&](World& ranks) {
    SmallTask task(1, 0, where);
    Replicas replicas(ranks);
    Trainer trainer(task, in_four(), where, &replicas);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "[train] --parts 4 on 3 ranks: each takes as many parts as the others");
}

}  // namespace
}  // namespace heddle::train
