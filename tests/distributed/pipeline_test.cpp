// Pipelines of two and four stages, ranks that are threads, beside the same layers whole: loss and gradients, in f64 on
// the reference device and in f32 on another; what stages keep.
#include "heddle/train/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "tests/distributed/rank_threads.h"
#include "tests/distributed/ranks_by_hand.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using distributed::PipelineSchedule;
using distributed::World;
using distributed::test::drawn;
using List = std::vector<Tensor>;

constexpr int64_t rows = 3, width = 5, microbatches = 4;

// Layers x -> tanh(x W + b) + x, the first of an embedding of the microbatch's rows; the last with the loss.
struct Layers {
  Layers(int64_t count, DType dtype, DeviceContext& device) {
    for (int64_t i = 0; i < count; ++i) {
      const auto seed = static_cast<uint32_t>(10 * i);
      weights.push_back(drawn({width, width}, seed, dtype, device));
      shifts.push_back(drawn({width}, seed + 1, dtype, device));
    }
    for (int64_t m = 0; m < microbatches; ++m) {
      inputs.push_back(drawn({rows, width}, static_cast<uint32_t>(1000 + m), dtype, device));
      targets.push_back(drawn({rows, width}, static_cast<uint32_t>(2000 + m), dtype, device));
    }
    for (List* list : {&weights, &shifts, &inputs, &targets}) eval(*list);
    for (List* list : {&weights, &shifts}) {
      for (Tensor& x : *list) x.set_requires_grad();
    }
  }
  Tensor layer(size_t i, const Tensor& x, int64_t m) const {
    const Tensor from = i == 0 ? inputs[static_cast<size_t>(m)] : x;
    const Tensor y = tanh(matmul(from, weights[i]) + shifts[i]) + from;
    return i + 1 < weights.size() ? y : mean(square(y - targets[static_cast<size_t>(m)]));
  }
  PipelineChunk chunk(int64_t place) const {
    const auto i = static_cast<size_t>(place);
    return {.forward = [this, i](const Tensor& x, int64_t m) { return layer(i, x, m); },
            .parameters = {weights[i], shifts[i]}};
  }
  List weights, shifts, inputs, targets;
};

class PipelineTest : public distributed::test::ValuesTest {
 protected:
  PipelineOptions options(PipelineSchedule schedule, bool recompute) const {
    return {.schedule = schedule,
            .microbatches = microbatches,
            .activations = {rows, width},
            .dtype = dtype(),
            .recompute = recompute};
  }
  std::vector<Pipeline::Step> run(PipelineSchedule schedule, int stages, int64_t chunks, bool recompute = false) {
    const Layers layers(stages * chunks, dtype(), device());
    std::vector<Pipeline::Step> steps(static_cast<size_t>(stages));
    distributed::test::all_ranks(stages, [&](World& world) {
      std::vector<PipelineChunk> own;
      for (int64_t c = 0; c < chunks; ++c) own.push_back(layers.chunk(c * stages + world.rank()));
      Pipeline pipeline(world.all(), options(schedule, recompute), own, device());
      (void)pipeline.run();  // a second step is the same
      steps[static_cast<size_t>(world.rank())] = pipeline.run();
    });
    expect_whole(layers, steps, stages, chunks);
    return steps;
  }

 private:
  void expect_whole(const Layers& layers, const std::vector<Pipeline::Step>& steps, int stages, int64_t chunks) {
    Tensor loss;
    for (int64_t m = 0; m < microbatches; ++m) {
      Tensor x;
      for (size_t i = 0; i < layers.weights.size(); ++i) x = layers.layer(i, x, m);
      loss = loss.defined() ? loss + x : x;
    }
    loss = loss / static_cast<double>(microbatches);
    List of = layers.weights;
    of.insert(of.end(), layers.shifts.begin(), layers.shifts.end());
    const List expected = grad(loss, of);
    for (size_t i = 0; i < layers.weights.size(); ++i) {
      const Pipeline::Step& step = steps[i % static_cast<size_t>(stages)];
      ASSERT_EQ(step.gradients.size(), static_cast<size_t>(chunks));
      const List& got = step.gradients[i / static_cast<size_t>(stages)];
      expect_same(got[0], expected[i], "weight");
      expect_same(got[1], expected[layers.weights.size() + i], "shift");
    }
    for (const Pipeline::Step& step : steps) {
      EXPECT_NEAR(step.loss, loss.to_doubles()[0], 1e-6);
      EXPECT_EQ(step.loss, steps.front().loss);
    }
  }
};

TEST_P(PipelineTest, EverySchedulesGradientsAreThoseOfTheWhole) {
  for (const int stages : {1, 2, 4}) {
    if (stages != 2 && GetParam() != "reference:0") continue;
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                                PipelineSchedule::zero_bubble, PipelineSchedule::zero_bubble_ahead})
      for (const bool recompute : {false, true}) (void)run(schedule, stages, 1, recompute);
    (void)run(PipelineSchedule::interleaved, stages, 2);
  }
}

// Row by row of the schedules' papers: GPipe keeps all microbatches, 1F1B as many as there are stages behind.
TEST_P(PipelineTest, StagesKeepWhatTheScheduleSays) {
  const std::vector<Pipeline::Step> all = run(PipelineSchedule::gpipe, 2, 1),
                                    few = run(PipelineSchedule::one_forward_one_backward, 2, 1),
                                    split = run(PipelineSchedule::zero_bubble, 2, 1),
                                    ahead = run(PipelineSchedule::zero_bubble_ahead, 2, 1);
  EXPECT_EQ(all[0].most_live, microbatches);
  EXPECT_EQ(few[0].most_live, 2);
  EXPECT_EQ(few[1].most_live, 1);
  EXPECT_LE(split[0].most_live, 2);
  EXPECT_EQ(few[0].spans.size(), static_cast<size_t>(2 * microbatches));
  EXPECT_EQ(split[0].spans.size(), static_cast<size_t>(3 * microbatches));
  EXPECT_EQ(ahead[0].most_live, 4);
  EXPECT_EQ(ahead[1].most_live, 4);
  EXPECT_EQ(ahead[0].spans.size(), static_cast<size_t>(2 * microbatches));
  EXPECT_EQ(ahead[1].spans.size(), static_cast<size_t>(2 * microbatches + 4));
}

// Gradients of microbatches are added in one order.
TEST_P(PipelineTest, SchedulesGiveTheSameBits) {
  const std::vector<Pipeline::Step> plain = run(PipelineSchedule::one_forward_one_backward, 2, 1);
  for (const auto schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::zero_bubble, PipelineSchedule::zero_bubble_ahead}) {
    const std::vector<Pipeline::Step> other = run(schedule, 2, 1);
    for (size_t stage = 0; stage < plain.size(); ++stage) {
      EXPECT_EQ(other[stage].loss, plain[stage].loss);
      for (size_t i = 0; i < plain[stage].gradients[0].size(); ++i)
        EXPECT_EQ(other[stage].gradients[0][i].to_bytes(), plain[stage].gradients[0][i].to_bytes()) << stage << i;
    }
  }
}

// What lies within a chunk has a value afterwards where it was kept: then the backward passes had no need to compute it
// again. Of the second step, since the first one finds out what that is.
TEST_P(PipelineTest, StagesKeepWhatBackwardPassesRead) {
  const auto each = [&](PipelineSchedule schedule, bool recompute) {
    const Layers layers(2, dtype(), device());
    std::vector<std::vector<NodePtr>> within(2);
    distributed::test::all_ranks(2, [&](World& world) {
      const auto i = static_cast<size_t>(world.rank());
      const auto forward = [&, i](const Tensor& x, int64_t m) {
        const Tensor from = i == 0 ? layers.inputs[static_cast<size_t>(m)] : x;
        const Tensor hidden = tanh(matmul(from, layers.weights[i]) + layers.shifts[i]);
        within[i].push_back(hidden.node());
        const Tensor y = matmul(hidden, layers.weights[i]);
        return i == 0 ? y : mean(square(y - layers.targets[static_cast<size_t>(m)]));
      };
      Pipeline pipeline(world.all(), options(schedule, recompute),
                        {{.forward = forward, .parameters = {layers.weights[i], layers.shifts[i]}}}, device());
      (void)pipeline.run();
      within[i].clear();
      (void)pipeline.run();
    });
    for (size_t i = 0; i < within.size(); ++i) {
      // The last stage of zb1p: what its first backward passes compute again, they keep for the second.
      const bool keeps = !recompute || (schedule == PipelineSchedule::zero_bubble && i == 1);
      EXPECT_EQ(within[i].size(), static_cast<size_t>(microbatches));
      for (const NodePtr& node : within[i]) EXPECT_EQ(node->has_value(), keeps);
    }
  };
  for (const auto schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward, PipelineSchedule::zero_bubble}) {
    each(schedule, false);
    each(schedule, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineTest, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

TEST(PipelineErrors, NameWhatDoesNotFit) {
  DeviceContext& reference = heddle::device("reference:0");
  const Layers layers(2, DType::f32, reference);
  const std::vector<std::string> errors = distributed::test::run_ranks(2, [&](World& world) {
    Pipeline pipeline(world.all(), {.microbatches = microbatches, .activations = {rows, width + 1}},
                      {layers.chunk(world.rank())}, reference);
    if (world.rank() == 0) (void)pipeline.run();
  });
  EXPECT_EQ(errors[0], "[pipeline] chunk 0 sends f32 (3, 5) to chunk 1; expected f32 (3, 6)");
  tests::expect_error<ValueError>(
      [&] {
        World alone;
        Pipeline none(alone.all(), {}, {}, reference);
      },
      {"[pipeline] a stage needs a chunk of layers"});
}

}  // namespace
}  // namespace heddle::train
