// Trainings of char-gpt by ranks that have parts of its model, as threads, against one process: losses, files that any
// mesh reads, and what is refused.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/train/model_parallel/parted_tensors.h"
#include "tests/distributed/mesh_runs.h"

namespace heddle::train {
namespace {

class ModelParallel : public RunsOfMeshes {};

TEST_F(ModelParallel, HeadsAndWidthsTrainAsOneProcess) {
  Config c = config();
  expect_as_alone(c, {.mesh = "tp=2", .ranks = 2});
  c.data.path = folder_ / "odd.txt";
  c.training.accumulate = 2;
  c.training.label_smoothing = 0.1;
  expect_as_alone(c, {.mesh = "dp=2,tp=2", .ranks = 4});
}

// Masks are those of ranks that have all positions, whose attention's are each rank's own.
TEST_F(ModelParallel, PositionsBetweenLayersTrainAsOneProcess) {
  Config c = config();
  c.training.sequence_parallel = true;
  expect_as_alone(c, {.mesh = "tp=2", .ranks = 2});
  c.training.microbatches = 2;
  expect_as_alone(c, {.mesh = "dp=2,tp=2,pp=2", .ranks = 8});
  c.training.microbatches = 0;
  c.model["dropout"] = Number{0.2};
  const std::vector<Ran> parts = run(c, {.mesh = "tp=2", .ranks = 2});
  c.training.sequence_parallel = false;
  expect_near(parts.front().losses, run(c, {.mesh = "tp=2", .ranks = 2}).front().losses, 1e-5);
}

TEST_F(ModelParallel, PositionsTrainAsOneProcess) { expect_as_alone(config(), {.mesh = "cp=2", .ranks = 2}); }

// Row 13 of the scale-out issue, with room for every token.
TEST_F(ModelParallel, ExpertsTrainAsOneProcess) {
  const Config c = with_experts(8);
  expect_as_alone(c, {.mesh = "ep=4", .ranks = 4});
  expect_as_alone(c, {.mesh = "dp=2,ep=2", .ranks = 4});
}

// A checkpoint is one file of all experts, and a rank's file is read by one process and by another mesh.
TEST_F(ModelParallel, AnyMeshGoesOnWithExperts) {
  Config c = with_experts(4);
  const Ran through = run(c, {}).front();
  c.training.limit_steps = 4;
  const std::string path = folder_ / "run";
  (void)run(c, {.mesh = "ep=4", .ranks = 4, .folder = path});
  c.training.limit_steps = 7;
  const std::vector<Ran> second = run(c, {.mesh = "dp=2,ep=2", .ranks = 4, .folder = path, .resume = true});
  expect_near(second.front().losses, {through.losses.begin() + 4, through.losses.begin() + 7}, 1e-5);
  c.training.limit_steps = 0;
  const Ran last = run(c, {.folder = path, .resume = true}).front();
  expect_near(last.losses, {through.losses.begin() + 7, through.losses.end()}, 1e-5);
}

TEST_F(ModelParallel, StagesTrainAsOneProcess) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb1p", "zb2p"}) {
    Config c = config(4);
    c.training.microbatches = 4;
    c.training.pipeline = schedule;
    expect_as_alone(c, {.mesh = "pp=2", .ranks = 2});
  }
}

TEST_F(ModelParallel, AllAxesTrainAsOneProcess) {
  Config c = config();
  c.training.microbatches = 2;
  c.training.ema = 0.9;
  expect_as_alone(c, {.mesh = "dp=2,tp=2,pp=2", .ranks = 8});
}

TEST_F(ModelParallel, UnevenBatchesCountByTheirExamples) {
  Config c = config();
  c.training.batch = 5;
  expect_as_alone(c, {.mesh = "dp=2,tp=2", .ranks = 4});
}

// Residual dropout draws one mask for all ranks along tp, that of one process where the heads' weights have none: two
// runs are the same, and ranks agree to the end.
TEST_F(ModelParallel, MasksAgreeAndRepeat) {
  Config c = config(3);
  c.model["dropout"] = Number{0.2};
  c.training.microbatches = 2;
  for (const char* mesh : {"dp=2,tp=2", "tp=2,pp=2"}) {
    if (std::string(mesh) == "dp=2,tp=2") c.training.microbatches = 0;
    const std::vector<Ran> once = run(c, {.mesh = mesh, .ranks = 4}), again = run(c, {.mesh = mesh, .ranks = 4});
    EXPECT_EQ(once.front().weights, again.front().weights) << mesh;
    EXPECT_EQ(once.front().losses, again.front().losses) << mesh;
    for (const Ran& rank : once) EXPECT_EQ(rank.weights, once.front().weights) << mesh;
    c.training.microbatches = 2;
  }
}

// A checkpoint of a mesh is one file of the whole model: each other mesh goes on from it as one process does.
TEST_F(ModelParallel, AnyMeshGoesOnFromAnother) {
  Config c = config(8);
  c.training.ema = 0.9;
  const Ran through = run(c, {}).front();
  c.training.limit_steps = 4;
  const std::string path = folder_ / "run";
  (void)run(c, {.mesh = "tp=2", .ranks = 2, .folder = path});
  c.training.limit_steps = 6;
  const std::vector<Ran> second = run(c, {.mesh = "pp=2", .ranks = 2, .folder = path, .resume = true});
  expect_near(second.front().losses, {through.losses.begin() + 4, through.losses.begin() + 6}, 1e-5);
  c.training.limit_steps = 0;
  const Ran last = run(c, {.folder = path, .resume = true}).front();
  expect_near(last.losses, {through.losses.begin() + 6, through.losses.end()}, 1e-5);
}

// What ranks with positions of their own share is once in the file, which one process goes on from.
TEST_F(ModelParallel, OneProcessGoesOnFromPositionsInParts) {
  Config c = config(6);
  const Ran through = run(c, {}).front();
  c.training.limit_steps = 4;
  c.training.sequence_parallel = true;
  const std::string path = folder_ / "run";
  (void)run(c, {.mesh = "tp=2", .ranks = 2, .folder = path});
  c.training.limit_steps = 0;
  const Ran last = run(c, {.folder = path, .resume = true}).front();
  expect_near(last.losses, {through.losses.begin() + 4, through.losses.end()}, 1e-5);
}

// Nothing is lost on the way: who goes on for no step writes what it has read.
TEST_F(ModelParallel, FilesHoldTheSameBits) {
  Config c = config(4);
  const std::string path = folder_ / "run";
  const Ran alone = run(c, {.folder = path}).front();
  const auto file = [&] {
    return load_checkpoint(checkpoint_path(RunFolder::checkpoints_of(path), 4), &device(device_));
  };
  const Checkpoint before = file();
  for (const Run& how : {Run{.mesh = "tp=2", .ranks = 2}, Run{.mesh = "tp=2,pp=2", .ranks = 4}}) {
    std::vector<std::unique_ptr<Task>> tasks;
    Config own = c;
    for (int i = 0; i < how.ranks; ++i) tasks.push_back(make_task(own, device(device_)));
    distributed::test::all_ranks(how.ranks, [&](distributed::World& world) {
      Replicas ranks(world, how.mesh);
      PartedTask task(std::unique_ptr<LanguageModel>(
                          dynamic_cast<LanguageModel*>(tasks[static_cast<size_t>(world.rank())].release())),
                      c, ranks, device(device_));
      PartedTensors tensors(*task.parted());
      const TensorMap together = tensors.joined(tensors.own_of(before.tensors));
      ASSERT_EQ(together.size(), ranks.leads() ? before.tensors.size() : 0);
      if (!ranks.leads()) return;
      for (const auto& [name, tensor] : before.tensors)
        EXPECT_EQ(together.at(name).to_bytes(), tensor.to_bytes()) << name;
    });
  }
}

// The first rank says so, without a look at single layers; the others wait for it until it has gone.
TEST_F(ModelParallel, ALossThatIsNotFiniteEndsAllRanks) {
  Config c = config(4);
  c.optimizer.name = "sgd";
  c.optimizer.lr = 1e36;
  std::vector<Ran> ran;
  const std::vector<std::string> errors = run_to_end(c, {.mesh = "tp=2", .ranks = 2, .limit = 6}, ran);
  EXPECT_NE(errors[0].find("[train] the loss became"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1], "");
}

TEST_F(ModelParallel, WhatDoesNotGoTogetherIsRefused) {
  Config c = config();
  EXPECT_EQ(refusal(c, {.mesh = "tp=3", .ranks = 3}), "[mesh] tp=3: 3 ranks along tp do not divide 2 heads");
  EXPECT_EQ(refusal(c, {.mesh = "cp=3", .ranks = 3}), "[mesh] cp=3: 3 ranks along cp do not divide 8 positions");
  EXPECT_EQ(refusal(c, {.mesh = "pp=5", .ranks = 5}), "[mesh] pp=5: 4 blocks are too few for 5 stages");
  c.model["experts"] = Integer{2};
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] tp=2: the 2 experts of a mixture lie on ranks along ep alone");
  EXPECT_EQ(refusal(c, {.mesh = "ep=4", .ranks = 4}), "[mesh] ep=4: 4 ranks along ep do not divide 2 experts");
  EXPECT_EQ(refusal(c, {.mesh = "ep=2,tp=2", .ranks = 4}),
            "[mesh] ep=2,tp=2: ranks along ep go with ranks along dp alone yet");
  c.training.batch = 9;
  EXPECT_EQ(refusal(c, {.mesh = "ep=2", .ranks = 2}),
            "[mesh] ep=2: the 2 ranks along dp and ep take as many examples each, and do not divide --batch 9");
  c = config();
  EXPECT_EQ(refusal(c, {.mesh = "ep=2", .ranks = 2}),
            "[mesh] ep=2: there are no experts for ranks along ep; --experts 8 makes some");
  c = config();
  c.training.sharding = "zero2";
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] tp=2: --sharding zero2 does not go with parts of a model yet");
  c = config();
  c.training.parts = 4;
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] tp=2: --parts 4 goes with ranks along dp and ep alone yet");
  c.model["experts"] = Integer{4};
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] tp=2: the 4 experts of a mixture lie on ranks along ep alone");
  c.training.sharding = "zero1";
  EXPECT_EQ(refusal(c, {.mesh = "ep=2", .ranks = 2}),
            "[mesh] ep=2: --sharding zero1 does not go with parts of a model yet");
  c = config();
  c.training.microbatches = 2;
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] --microbatches 2: there are no stages; --mesh pp=2 makes two");
  c = config();
  c.set("training.recompute_stages", "true");
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] --recompute-stages: there are no stages; --mesh pp=2 makes two");
  c = config();
  c.set("training.sequence_parallel", "true");
  EXPECT_EQ(refusal(c, {.mesh = "pp=2", .ranks = 2}),
            "[mesh] --sequence-parallel: there are no ranks along tp; --mesh tp=2 makes two");
  c.model["context"] = Integer{9};
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] tp=2: --sequence-parallel: 2 ranks along tp do not divide 9 positions");
  c = config();
  c.optimizer.name = "muon";
  EXPECT_EQ(refusal(c, {.mesh = "tp=2", .ranks = 2}),
            "[mesh] tp=2: muon looks at whole parameters, of which a rank has parts");
}

}  // namespace
}  // namespace heddle::train
