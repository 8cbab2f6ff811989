// Optimizers that keep the states of some elements only: what they update is what the whole optimizer updates.
#include <algorithm>
#include <functional>
#include <memory>

#include "heddle/core/graph/philox.h"
#include "heddle/nn/clip.h"
#include "heddle/nn/optim.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using nn::Optimizer;
using nn::Shard;

const std::vector<Shape> shard_shapes = {{4, 3}, {7}, {}, {2, 2, 2}};

std::vector<float> uniform_numbers(int64_t count, uint32_t stream) {
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = philox_uniform({3, 1, stream, 0}, i) * 2 - 1;
  return v;
}

std::vector<Tensor> shard_parameters(DeviceContext& device) {
  std::vector<Tensor> parameters;
  for (size_t i = 0; i < shard_shapes.size(); ++i) {
    Tensor p = Tensor::from_vector(uniform_numbers(shard_shapes[i].numel(), static_cast<uint32_t>(i)), shard_shapes[i],
                                   &device);
    parameters.push_back(p.set_requires_grad());
  }
  return parameters;
}

// Of a parameter in an update.
std::vector<float> gradient_of(size_t parameter, uint32_t update) {
  return uniform_numbers(shard_shapes[parameter].numel(), 100 * (update + 1) + static_cast<uint32_t>(parameter));
}

using Maker = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>;
template <class T, class Options>
Maker maker(const Options& options) {
  return [options](std::vector<Tensor> parameters) { return std::make_unique<T>(std::move(parameters), options); };
}

// Borders within parameters, at their ends, and a rank that has nothing.
const std::vector<std::vector<Shard>> parts = {
    {{0, 0, 5}}, {{0, 5, 12}, {1, 0, 3}}, {}, {{1, 3, 7}, {2, 0, 1}, {3, 0, 1}}, {{3, 1, 8}}};
// Each parameter at one of three.
const std::vector<std::vector<Shard>> whole_parts = {{{1, 0, 7}, {2, 0, 1}}, {{0, 0, 12}}, {{3, 0, 8}}};

// Ranks as optimizers of one process: each has the same parameters, which all get what any updated.
class Ranks {
 public:
  Ranks(DeviceContext& device, const Maker& make, const std::vector<std::vector<Shard>>& shards,
        const std::function<void(Optimizer&)>& prepare = {}) {
    for (const std::vector<Shard>& own : shards) {
      all.push_back({shard_parameters(device), nullptr});
      all.back().optimizer = make(all.back().parameters);
      if (prepare) prepare(*all.back().optimizer);
      all.back().optimizer->keep_shards(own);
    }
  }

  void update(uint32_t number, const Tensor& norm = {}) {
    std::vector<std::vector<float>> after;
    for (const Tensor& p : all.front().parameters) after.push_back(p.to_vector<float>());
    for (Rank& rank : all) {
      const std::vector<Tensor> updated = rank.optimizer->update_shards(gradients(rank, number), norm);
      for (size_t i = 0; i < updated.size(); ++i) {
        const Shard& shard = rank.optimizer->shards()[i];
        const std::vector<float> values = updated[i].to_vector<float>();
        EXPECT_EQ(static_cast<int64_t>(values.size()), shard.end - shard.begin);
        std::copy(values.begin(), values.end(), after[shard.parameter].begin() + shard.begin);
      }
    }
    for (Rank& rank : all) {
      for (size_t i = 0; i < after.size(); ++i)
        rank.parameters[i].assign(Tensor::from_vector(after[i], shard_shapes[i], &rank.parameters[i].device()));
    }
    eval_pending();
  }

  struct Rank {
    std::vector<Tensor> parameters;
    std::unique_ptr<Optimizer> optimizer;
  };
  std::vector<Rank> all;

 private:
  static std::vector<Tensor> gradients(const Rank& rank, uint32_t number) {
    std::vector<Tensor> found;
    for (const Shard& shard : rank.optimizer->shards()) {
      const std::vector<float> whole = gradient_of(shard.parameter, number);
      const std::vector<float> own(whole.begin() + shard.begin, whole.begin() + shard.end);
      found.push_back(
          Tensor::from_vector(own, Shape{shard.end - shard.begin}, &rank.parameters[shard.parameter].device()));
    }
    return found;
  }
};

class OptimizerShards : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where = device(GetParam());

  // The whole optimizer, which takes the same gradients.
  void expect_equal(const Maker& make, const std::vector<std::vector<Shard>>& shards, const std::string& name,
                    const std::function<void(Optimizer&)>& prepare = {}) {
    const std::vector<Tensor> parameters = shard_parameters(where);
    const std::unique_ptr<Optimizer> whole = make(parameters);
    if (prepare) prepare(*whole);
    Ranks ranks(where, make, shards, prepare);
    for (uint32_t number = 0; number < 3; ++number) {
      std::vector<Tensor> gradients;
      for (size_t i = 0; i < parameters.size(); ++i) {
        gradients.push_back(Tensor::from_vector(gradient_of(i, number), shard_shapes[i], &where));
        Tensor p = parameters[i];
        p.set_grad(gradients.back());
      }
      const Tensor norm = nn::global_norm(gradients);
      whole->step();
      ranks.update(number, norm);
    }
    // The reference, in double precision, rounds a norm that is handed over and none that it computes by the way.
    const float off = prepare && GetParam() == "reference:0" ? 1e-6f : 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto found = ranks.all.front().parameters[i].to_vector<float>(),
                 expected = parameters[i].to_vector<float>();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], expected[k], off) << name << i << " at " << k;
    }
  }
};

TEST_P(OptimizerShards, OfElementwiseOptimizersBeginAnywhere) {
  expect_equal(maker<nn::SGD>(nn::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}), parts,
               "SGD");
  expect_equal(maker<nn::Adam>(nn::AdamOptions{.weight_decay = 0.1}), parts, "Adam");
  expect_equal(maker<nn::AdamW>(nn::AdamOptions{.weight_decay = 0.1}), parts, "AdamW");
  expect_equal(maker<nn::Lion>(nn::LionOptions{.weight_decay = 0.1}), parts, "Lion");
  expect_equal(maker<nn::RMSprop>(nn::RmsPropOptions{.momentum = 0.5, .centered = true}), parts, "RMSprop");
  expect_equal(maker<nn::Adagrad>(nn::AdagradOptions{.weight_decay = 0.1, .initial_sum = 0.5}), parts, "Adagrad");
}

TEST_P(OptimizerShards, OfOthersAreWholeParameters) {
  expect_equal(maker<nn::LAMB>(nn::LambOptions{}), whole_parts, "LAMB");
  expect_equal(maker<nn::Adafactor>(nn::AdafactorOptions{}), whole_parts, "Adafactor");
}

TEST_P(OptimizerShards, GroupsLimitsAndScalesCountAsForTheWhole) {
  const auto prepare = [this](Optimizer& optimizer) {
    optimizer.set_group({optimizer.parameters()[1], optimizer.parameters()[3]}, {.lr_scale = 2, .weight_decay = 0});
    optimizer.set_clip_norm(0.25);
    optimizer.set_loss_scale(nn::LossScale({.start = 4, .interval = 2, .device = where}));
    optimizer.set_schedule([](int64_t update) { return 0.01 / static_cast<double>(update); });
  };
  expect_equal(maker<nn::AdamW>(nn::AdamOptions{.weight_decay = 0.1}), parts, "AdamW", prepare);
}

TEST_P(OptimizerShards, AnUpdateWithoutAFiniteNormIsLeftOut) {
  Ranks ranks(where, maker<nn::Adam>(nn::AdamOptions{}), parts, [](Optimizer& o) { o.set_clip_norm(1); });
  const std::vector<float> before = ranks.all[0].parameters[0].to_vector<float>();
  ranks.update(0, Tensor::from_vector(std::vector<float>{std::numeric_limits<float>::quiet_NaN()}, Shape{}, &where));
  EXPECT_EQ(ranks.all[0].parameters[0].to_vector<float>(), before);
  ranks.update(1, Tensor::from_vector(std::vector<float>{1}, Shape{}, &where));
  EXPECT_NE(ranks.all[0].parameters[0].to_vector<float>(), before);
}

TEST_P(OptimizerShards, StatesComeBack) {
  const Maker make = maker<nn::Adam>(nn::AdamOptions{});
  Ranks ranks(where, make, parts), again(where, make, parts);
  ranks.update(0);
  for (size_t r = 0; r < parts.size(); ++r) {
    const nn::StateDict state = ranks.all[r].optimizer->state_dict();
    EXPECT_EQ(state.size(), parts[r].size() * 3);
    for (size_t i = 0; i < parts[r].size(); ++i)
      EXPECT_EQ(state.at(std::to_string(i) + ".m").numel(), parts[r][i].end - parts[r][i].begin);
    again.all[r].optimizer->load_state_dict(state);
    for (size_t i = 0; i < shard_shapes.size(); ++i) again.all[r].parameters[i].assign(ranks.all[r].parameters[i]);
  }
  eval_pending();
  ranks.update(1);
  again.update(1);
  for (size_t i = 0; i < shard_shapes.size(); ++i)
    EXPECT_EQ(ranks.all[0].parameters[i].to_vector<float>(), again.all[0].parameters[i].to_vector<float>());
}

TEST(OptimizerShard, WhatIsNoneIsRefused) {
  const std::vector<Tensor> parameters = shard_parameters(reference());
  nn::Adam adam(parameters);
  for (const Shard& shard : {Shard{4, 0, 1}, Shard{0, 0, 13}, Shard{0, -1, 2}, Shard{0, 3, 3}})
    expect_error<ValueError>([&] { adam.keep_shards({shard}); }, {"[Adam] elements ", " are no shard"});
  nn::LAMB lamb(parameters);
  expect_error<ValueError>([&] { lamb.keep_shards({{0, 0, 5}}); }, {"which has 12: it takes whole parameters"});
  adam.keep_shards({{0, 0, 5}});
  expect_error<ValueError>([&] { adam.keep_shards({{0, 0, 5}}); }, {"chosen once, before the first update"});
  expect_error<ValueError>([&] { adam.update(); }, {"it keeps shards; update_shards() updates them"});
  expect_error<ValueError>([&] { (void)adam.update_shards({}); }, {"[Adam] 0 gradients for 1 shards"});
  adam.set_clip_norm(1);
  const Tensor gradient = f32({1, 2, 3, 4, 5}, {5});
  expect_error<ValueError>([&] { (void)adam.update_shards({gradient}); }, {"it needs the norm of all gradients"});
}

INSTANTIATE_TEST_SUITE_P(Devices, OptimizerShards, testing::ValuesIn(heddle::test::value_devices()), backend_test_name);

}  // namespace
}  // namespace heddle::tests
