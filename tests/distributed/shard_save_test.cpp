// train/shard_save.h: parts that ranks save beside training; a save that fails does so on all ranks.
#include "heddle/train/shard_save.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/train/background_task.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/replicas.h"
#include "heddle/train/sharded_checkpoint.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

namespace fs = std::filesystem;
using distributed::World;
using distributed::test::all_ranks;

std::vector<Optimizers::ShardState> own_state(int rank, int ranks) {
  const std::vector<float> values(3, static_cast<float>(rank));
  return {
      {"0.m", Shape{3 * ranks}, 3 * rank, 3 * rank + 3, Tensor::from_vector(values, Shape{3}, &device("reference:0"))}};
}

// What each rank meets in write_part(), and in end() where that came so far.
std::vector<std::string> errors_of_save(const std::string& checkpoint, bool first_fails) {
  std::vector<std::string> errors(3);
  all_ranks(3, [&](World& world) {
    Replicas replicas(world);
    ShardSave save(replicas.group("checkpoints"), checkpoint, 7, own_state(world.rank(), 3));
    try {
      EXPECT_EQ(save.write_part().size(), 4u);
      const bool fails = first_fails && world.rank() == 0;
      save.end(fails ? std::make_exception_ptr(IoError("[io] no space left")) : nullptr);
    } catch (const IoError& error) {
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return errors;
}

TEST(ShardSave, FailsOnAllRanksOrOnNone) {
  const test::TemporaryFolder folder;
  const std::string checkpoint = folder / "step-00000007.safetensors";
  for (const std::string& error : errors_of_save(checkpoint, false)) EXPECT_EQ(error, "");
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(fs::exists(shard_path(checkpoint, rank, 3)));
  for (const std::string& error : errors_of_save(checkpoint, true))
    EXPECT_EQ(error, "[checkpoint] rank 0 could not save its part: [io] no space left");
  fs::remove(shard_path(checkpoint, 1, 3));
  fs::create_directory(shard_path(checkpoint, 1, 3));
  for (const std::string& error : errors_of_save(checkpoint, false)) {
    EXPECT_EQ(error.find("[checkpoint] rank 1 could not save its part: "), 0u) << error;
    EXPECT_NE(error.find("step-00000007.rank-1-of-3.safetensors"), std::string::npos) << error;
  }
}

class SavesOfTrainings : public testing::Test {
 protected:
  static Config config() {
    Config c = small_config();
    c.training.sharding = "zero1";
    c.checkpoint.every = 2;
    return c;
  }
  static std::vector<Ran> train(const Config& c, const std::string& folder) {
    return train_ranks(c, {"reference:0", "reference:0"}, {.folder = folder});
  }
  test::TemporaryFolder folder;
};

// The same files, whether training waits for them or not.
TEST_F(SavesOfTrainings, BesideAndWaitedForAreTheSame) {
  Config waiting = config();
  waiting.checkpoint.beside = false;
  (void)train(config(), folder / "beside");
  (void)train(waiting, folder / "waiting");
  const auto states = [&](const char* run) {
    return load_latest_checkpoint(RunFolder::checkpoints_of(folder / run), &device("reference:0"))->checkpoint.tensors;
  };
  const TensorMap beside = states("beside"), waited = states("waiting");
  ASSERT_EQ(beside.size(), waited.size());
  for (const auto& [name, tensor] : beside) EXPECT_EQ(tensor.to_bytes(), waited.at(name).to_bytes()) << name;
}

// The next save, or the run's end, says so; the checkpoint before it is whole, and no file names the lost part.
TEST_F(SavesOfTrainings, AFailureEndsTheRunOnAllRanks) {
  const std::string checkpoints = RunFolder::checkpoints_of(folder / "a");
  Config begun = config();
  begun.training.limit_steps = 4;
  (void)train(begun, folder / "a");
  const std::string lost = checkpoint_path(checkpoints, 8);
  fs::create_directories(shard_path(lost, 1, 2) + "/kept");
  all_ranks(2, [&](World& world) {
    Replicas replicas(world);
    tests::expect_error<IoError>(
        [&] {
          (void)train_one(*task_of({}, device("reference:0")), config(), device("reference:0"), &replicas,
                          {.folder = folder / "a", .resume = true});
        },
        {"[checkpoint] rank 1 could not save its part: ", "step-00000008.rank-1-of-2.safetensors"});
  });
  EXPECT_FALSE(fs::exists(lost));
  EXPECT_EQ(load_latest_checkpoint(checkpoints, &device("reference:0"))->step, 6);
}

TEST(BackgroundTask, GivesAnErrorOnce) {
  BackgroundTask task;
  int done = 0;
  task.start([&] { ++done; });
  task.start([] { throw IoError("[io] lost"); });
  EXPECT_EQ(done, 1);
  tests::expect_error<IoError>([&] { task.wait(); }, {"[io] lost"});
  task.wait();
  task.start([&] { ++done; });
  task.wait();
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace heddle::train
