// Parameters that ranks share (train/sharded_parameters.h): what an evaluation sees, what travels for it, what is
// refused. Trainings: sharded_training_test.cpp.
#include "heddle/train/sharded_parameters.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/train/sharded_gradients.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using tests::expect_error;

class Shared : public testing::Test {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < ranks; ++rank)
      tasks.push_back(std::make_unique<LayersTask>(std::vector<int64_t>{5, 12, 9, 12, 3}, device("reference:0")));
  }
  ShardLayout layout(nn::Module& model) const {
    return {elements_to_own(model), {.ranks = ranks, .elementwise = true, .bucket_elements = 80}};
  }
  nn::Module& model(const distributed::World& world) { return tasks[static_cast<size_t>(world.rank())]->model(); }
  static Tensor ones() { return Tensor::from_vector(std::vector<float>(10, 1), Shape{2, 5}, &device("reference:0")); }

  static constexpr int ranks = 2;
  std::vector<std::unique_ptr<Task>> tasks;
  Config config;
};

// Of two ranks all buckets have room; with one more reader they are there.
TEST_F(Shared, EvaluationsGatherWhatHasRoomOnce) {
  const std::vector<float> expected = tasks[0]->model()(ones()).to_vector<float>();
  config.training.sharding = "zero3";
  config.training.ema = 0.5;
  distributed::test::all_ranks(ranks, [&](distributed::World& world) {
    Replicas replicas(world);
    nn::Module& own = model(world);
    const ShardLayout parts = layout(own);
    EXPECT_GE(parts.buckets().size(), 3u);
    ShardedParameters parameters(own, parts, config, replicas);
    const auto evaluate = [&] {
      const NoGradScope no_grad;
      return own(ones()).to_vector<float>();
    };
    {
      const ParametersScope scope(&parameters, ParametersScope::Use::evaluation);
      EXPECT_EQ(evaluate(), expected);
      const uint64_t sent = replicas.bytes_sent();
      EXPECT_EQ(evaluate(), expected);
      EXPECT_EQ(replicas.bytes_sent(), sent);
    }
    expect_error<ValueError>([&] { (void)evaluate(); }, {"was looked at whose elements several ranks share"});
    // An average has the first update's decay, 2 / 11, at most.
    parameters.set_own(std::vector<float>(parameters.own().size(), 0));
    const nn::StateDict averages = parameters.gathered(true).average;
    for (const auto& [name, whole] : parameters.gathered(true).model) EXPECT_EQ(whole.abs().max().item(), 0) << name;
    {
      const ParametersScope scope(&parameters, ParametersScope::Use::training);
      EXPECT_EQ(evaluate(), (std::vector<float>(6, 0)));
    }
    const ParametersScope scope(&parameters, ParametersScope::Use::evaluation);
    EXPECT_NE(evaluate(), expected);
    EXPECT_GT(averages.at("0").abs().max().item(), 0);
  });
}

// What was asked for and not read is of no later use.
TEST_F(Shared, ValuesOnTheirWayAreNotTakenForLaterOnes) {
  config.training.sharding = "zero3";
  distributed::test::all_ranks(ranks, [&](distributed::World& world) {
    Replicas replicas(world);
    nn::Module& own = model(world);
    const ShardLayout parts = layout(own);
    ShardedParameters parameters(own, parts, config, replicas);
    for (size_t group = 0; group < parts.buckets().size(); ++group) parameters.fetch(group);
    parameters.set_own(std::vector<float>(parameters.own().size(), 0));
    const ParametersScope scope(&parameters, ParametersScope::Use::training);
    EXPECT_EQ(own(ones()).to_vector<float>(), (std::vector<float>(6, 0)));
  });
}

TEST_F(Shared, WhatDoesNotFitIsRefused) {
  distributed::World world;
  Replicas replicas(world);
  nn::Module& own = tasks[0]->model();
  const ShardLayout parts(elements_to_own(own), {});
  ShardedParameters parameters(own, parts, config, replicas);
  nn::StateDict states = parameters.gathered(true).model;
  states["0.weight"] = zeros(Shape{5, 11}, DType::f32, &device("reference:0"));
  expect_error<ShapeError>([&] { parameters.load(states, {}); }, {"0.weight has shape (5, 11)"});
  states.erase("0.weight");
  expect_error<ValueError>([&] { parameters.load(states, {}); },
                           {"no tensor '0.weight'", "likely saved from another model"});
  nn::Module& other = tasks[1]->model();
  other.to(DType::bf16);
  expect_error<ValueError>([&] { ShardedParameters refused(other, parts, config, replicas); },
                           {"[train] --sharding zero3: the parameter 0.weight is bf16; ranks share those of f32"});
}

}  // namespace
}  // namespace heddle::train
