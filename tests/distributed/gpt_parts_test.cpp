// A Gpt in parts on the ranks of a mesh against the same Gpt whole: losses and all gradients, in f64 on the reference
// device and in f32 on the others.
#include "heddle/nn/models/gpt_parts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/model_parallel/parted_model.h"
#include "tests/distributed/rank_threads.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using distributed::World;

constexpr int64_t sequences = 8, length = 8;

struct Form {
  std::string mesh;
  int ranks;
  int64_t vocabulary = 12;
  std::string pipeline = "1f1b";
  int64_t microbatches = 0;
  bool sequence_parallel = false;
};

class GptInParts : public distributed::test::ValuesTest {
 protected:
  nn::Gpt model(const Form& form) {
    manual_seed(5);
    nn::Gpt gpt({.vocabulary = form.vocabulary, .context = length, .layers = 4, .heads = 2, .width = 6, .dropout = 0},
                nn::ParameterOptions{.device = device()});
    gpt.to(dtype());
    // Larger than the initial ones, and no zeros.
    uint32_t seed = 0;
    for (Tensor& p : values_of(gpt)) {
      const NoGradScope no_grad;
      p.assign(p + numbers(p.shape(), ++seed) * 0.3);
    }
    eval_pending();
    return gpt;
  }
  static std::vector<Tensor> values_of(const nn::Module& module) { return module.parameters(); }

  std::vector<Tensor> batch(int64_t vocabulary) {
    std::vector<int32_t> tokens, targets;
    for (int64_t i = 0; i < sequences * length; ++i) {
      tokens.push_back(static_cast<int32_t>((i * 7 + i / 5) % vocabulary));
      targets.push_back(static_cast<int32_t>((i * 5 + 3) % vocabulary));
    }
    return {Tensor::from_vector(tokens, Shape{sequences, length}, &device()),
            Tensor::from_vector(targets, Shape{sequences, length}, &device())};
  }

  // By name, and the loss.
  std::pair<std::map<std::string, Tensor>, double> whole(nn::Gpt& gpt, const std::vector<Tensor>& in) {
    const Tensor logits = gpt(in[0]);
    const Tensor loss = cross_entropy(reshape(logits, {-1, logits.dim(2)}), flatten(in[1]));
    backward(loss);
    std::map<std::string, Tensor> gradients;
    for (const auto& [name, p] : gpt.named_parameters()) gradients.emplace(name, p.grad());
    return {gradients, loss.to_doubles()[0]};
  }

  // What MeshStep does with f32 lists, in the gradient's own type.
  static std::vector<double> over_the_ranks(PartedModel& parted, size_t n, const Tensor& gradient) {
    std::vector<double> sum = gradient.to_doubles();
    for (double& value : sum) value /= parted.data().size();
    const Shape shape{static_cast<int64_t>(sum.size())};
    parted.data().all_reduce(sum.data(), DType::f64, shape).wait();
    if (parted.is_of_own_positions(n)) parted.tensor().all_reduce(sum.data(), DType::f64, shape).wait();
    if (parted.is_tied(n)) parted.tied().all_reduce(sum.data(), DType::f64, shape).wait();
    return sum;
  }

  void expect_gradients(PartedModel& parted, const std::map<std::string, Tensor>& expected, const std::string& where) {
    const auto parameters = parted.module().named_parameters();
    for (size_t n = 0; n < parameters.size(); ++n) {
      const auto& [name, p] = parameters[n];
      ASSERT_TRUE(p.grad().defined()) << where << name;
      const std::vector<double> got = over_the_ranks(parted, n, p.grad());
      const Tensor part =
          nn::part_of(expected.at(name), parted.module().cut_of(name), parted.module().place().tensor, device());
      expect_same(Tensor::from_vector(got, part.shape(), &heddle::device("reference:0")), part, where + name);
    }
  }

  void expect_whole(const Form& form) {
    nn::Gpt gpt = model(form);
    const std::vector<Tensor> in = batch(form.vocabulary);
    const auto [expected, expected_loss] = whole(gpt, in);
    Config config;
    config.training.batch = sequences;
    config.training.pipeline = form.pipeline;
    config.training.microbatches = form.microbatches;
    config.training.sequence_parallel = form.sequence_parallel;
    distributed::test::all_ranks(form.ranks, [&](World& world) {
      Replicas replicas(world, form.mesh);
      PartedModel parted(gpt, config, replicas, device());
      const data::BatchPart own = replicas.part_of(sequences);
      std::vector<Tensor> part;
      for (const Tensor& x : in) part.push_back(slice(x, 0, {.start = own.first, .stop = own.first + own.size}));
      Tensor loss;
      if (parted.in_stages()) {
        loss = parted.differentiate(part);
      } else {
        MeshScope scope(parted.links());
        loss = parted.loss(part, 0);
        backward(loss);
        loss = loss.detach();
        std::vector<Tensor> all{loss};
        for (const Tensor& p : parted.module().parameters()) all.push_back(p.grad());
        eval(all);
        scope.finish();
      }
      double mean = loss.to_doubles()[0] / parted.data().size();
      parted.data().all_reduce(&mean, DType::f64, Shape()).wait();
      EXPECT_NEAR(mean, expected_loss, parted.in_stages() || !exact() ? 1e-6 : 1e-10);
      const std::string where = form.mesh + ", rank " + std::to_string(world.rank()) + ", ";
      expect_gradients(parted, expected, where);
      double evaluated = parted.evaluate(part) / parted.data().size();
      parted.data().all_reduce(&evaluated, DType::f64, Shape()).wait();
      EXPECT_NEAR(evaluated, expected_loss, 1e-6) << where;
    });
  }
};

TEST_P(GptInParts, HeadsAndWidths) {
  expect_whole({.mesh = "tp=2", .ranks = 2});
  expect_whole({.mesh = "tp=2", .ranks = 2, .vocabulary = 13});  // which two do not divide
}

TEST_P(GptInParts, PositionsBetweenLayers) {
  expect_whole({.mesh = "tp=2", .ranks = 2, .sequence_parallel = true});
  expect_whole({.mesh = "tp=2", .ranks = 2, .vocabulary = 13, .sequence_parallel = true});
  if (!exact()) return;
  expect_whole({.mesh = "dp=2,tp=2", .ranks = 4, .vocabulary = 13, .sequence_parallel = true});
  expect_whole({.mesh = "cp=2,tp=2", .ranks = 4, .sequence_parallel = true});
  for (const char* schedule : {"1f1b", "zb1p"})
    expect_whole({.mesh = "pp=2,tp=2",
                  .ranks = 4,
                  .vocabulary = 13,
                  .pipeline = schedule,
                  .microbatches = 2,
                  .sequence_parallel = true});
}

TEST_P(GptInParts, Positions) { expect_whole({.mesh = "cp=2", .ranks = 2}); }

TEST_P(GptInParts, Stages) {
  for (const char* schedule : {"gpipe", "1f1b", "zb1p", "zb2p", "interleaved"})
    expect_whole({.mesh = "pp=2", .ranks = 2, .pipeline = schedule, .microbatches = 4});
}

TEST_P(GptInParts, AllAxes) {
  expect_whole({.mesh = "dp=2,tp=2,pp=2", .ranks = 8, .microbatches = 2});
  if (!exact()) return;
  expect_whole({.mesh = "tp=2,cp=2", .ranks = 4});
  expect_whole({.mesh = "pp=4,dp=2", .ranks = 8, .vocabulary = 13, .pipeline = "zb1p", .microbatches = 4});
  expect_whole({.mesh = "cp=2,pp=2,tp=2", .ranks = 8, .microbatches = 2});
}

INSTANTIATE_TEST_SUITE_P(Devices, GptInParts, testing::ValuesIn(heddle::test::value_devices()),
                         tests::device_test_name);

// Two ranks' parts of (2, 12, 3) along axis 1, in three blocks of four: each has two of each block.
TEST(ParameterCut, PartsMakeUpTheWhole) {
  DeviceContext& reference = heddle::device("reference:0");
  const Tensor whole = reshape(arange(0, 72, 1, DType::f32, &reference), {2, 12, 3});
  const nn::ParameterCut cut{.axis = 1, .blocks = 3};
  std::vector<uint8_t> together(72 * sizeof(float));
  for (const int64_t place : {0, 1}) {
    const Tensor part = nn::part_of(whole, cut, {2, place}, reference);
    ASSERT_EQ(part.shape(), Shape({2, 6, 3}));
    EXPECT_EQ(nn::shape_of_whole(part.shape(), cut, 2), whole.shape());
    const std::vector<double> got = part.to_doubles();
    for (int64_t row = 0; row < 6; ++row)
      EXPECT_EQ(got[static_cast<size_t>(3 * row)], 3 * (row / 2 * 4 + row % 2 + 2 * place)) << place << ", " << row;
    nn::put_part(part.to_bytes(), together, whole.shape(), sizeof(float), cut, {2, place});
  }
  EXPECT_EQ(together, whole.to_bytes());
  EXPECT_EQ(nn::shape_of_part(Shape{0, 4}, {.axis = 0}, 2), Shape({0, 4}));
  tests::expect_error<ShapeError>(
      [&] {
        (void)nn::part_of(whole, cut, {3, 0}, reference);
      },
      {"[ParameterCut] 3 ranks do not divide axis 1 of (2, 12, 3), in 3 blocks"});
}

}  // namespace
}  // namespace heddle::train
