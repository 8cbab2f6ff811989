// Mixtures of experts under --parts: the same bits by one process and by ranks that have other experts, and the losses
// of accumulation, whose batches are the same parts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/core/ir/dynamic_shapes.h"
#include "tests/distributed/mesh_runs.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"

namespace heddle::train {
namespace {

class MixtureInParts : public RunsOfMeshes, public testing::WithParamInterface<std::string> {
 protected:
  // Ranks of one process have one planner, to which their sizes are those of one structure: none is to vary.
  void SetUp() override {
    RunsOfMeshes::SetUp();
    device_ = GetParam();
    set_dynamic_shapes(DynamicShapes::never);
  }
  void TearDown() override { set_dynamic_shapes(before_); }

  // Sizes that fill no vector, picks that are dropped, masks, a limit of the norm, an average.
  Config in_parts(int64_t parts) const {
    Config c = with_experts(8);
    c.model["layers"] = Integer{2};
    c.model["width"] = Integer{10};
    c.model["capacity_factor"] = Number{1.1};
    c.model["dropout"] = Number{0.1};
    c.training.parts = parts;
    c.training.steps = 3;
    c.training.clip_norm = 0.5;
    c.training.ema = 0.9;
    c.log.eval_every = 3;
    return c;
  }

 private:
  const DynamicShapes before_ = dynamic_shapes();
};

TEST_P(MixtureInParts, BitsAreThoseOfOneProcessWhereverExpertsLie) {
  const Config c = in_parts(4);
  const Ran alone = run(c, {}).front();
  ASSERT_EQ(alone.losses.size(), 3u);
  EXPECT_NE(alone.losses[2], alone.losses[0]);
  for (const Run& how :
       {Run{.mesh = "ep=2", .ranks = 2}, Run{.mesh = "ep=4", .ranks = 4}, Run{.mesh = "dp=2,ep=2", .ranks = 4},
        Run{.mesh = "ep=2,dp=2", .ranks = 4}, Run{.mesh = "dp=2", .ranks = 2}}) {
    for (const Ran& rank : run(c, how)) {
      EXPECT_EQ(rank.losses, alone.losses) << how.mesh;
      EXPECT_EQ(rank.weights, alone.weights) << how.mesh;
    }
  }
}

TEST_P(MixtureInParts, BitsAreThoseOfOneProcessWithAnExpertARank) {
  if (GetParam() == "vulkan:0") GTEST_SKIP() << "as on the other devices, for less time";
  Config c = in_parts(8);
  c.training.steps = c.log.eval_every = 2;
  const Ran alone = run(c, {}).front(), ranks = run(c, {.mesh = "ep=8", .ranks = 8}).back();
  EXPECT_EQ(ranks.losses, alone.losses);
  EXPECT_EQ(ranks.weights, alone.weights);
}

// A run goes on with any of these ranks, one process among them.
TEST_P(MixtureInParts, AResumedRunGivesTheSameBits) {
  if (GetParam() != "reference:0") GTEST_SKIP() << "the same on every device";
  Config c = in_parts(4);
  const Ran whole = run(c, {}).front();
  const std::string path = folder_ / "run";
  c.training.limit_steps = 1;
  (void)run(c, {.folder = path});
  c.training.limit_steps = 2;
  (void)run(c, {.mesh = "ep=4", .ranks = 4, .folder = path, .resume = true});
  c.training.limit_steps = 0;
  EXPECT_EQ(run(c, {.folder = path, .resume = true}).front().weights, whole.weights);
}

TEST_P(MixtureInParts, LossesAreThoseOfAccumulation) {
  if (GetParam() != "reference:0") GTEST_SKIP() << "the same on every device";
  Config parts = in_parts(4);
  parts.model["dropout"] = Number{0};
  Config batches = parts;
  batches.training.parts = 0;
  batches.training.batch = 2;
  batches.training.accumulate = 4;
  expect_near(run(parts, {}).front().losses, run(batches, {}).front().losses, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Devices, MixtureInParts, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

}  // namespace
}  // namespace heddle::train
