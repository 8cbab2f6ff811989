// train/sharded_checkpoint.h: what ranks save any number of ranks reads, bit by bit, and what is not whole is refused.
#include "heddle/train/sharded_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/prefix.h"
#include "heddle/train/replicas.h"
#include "heddle/train/shard_layout.h"
#include "heddle/train/shard_save.h"
#include "heddle/train/sharded_gradients.h"
#include "heddle/train/sharded_parameters.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

namespace fs = std::filesystem;
using distributed::World;
using distributed::test::all_ranks;
using Bytes = std::vector<uint8_t>;

constexpr const char* where = "reference:0";

class ShardedCheckpoints : public testing::Test {
 protected:
  static std::unique_ptr<Task> task(DeviceContext& device) {
    return std::make_unique<LayersTask>(std::vector<int64_t>{5, 6, 4, 6, 3}, device);
  }
  static Config config(const std::string& optimizer, const std::string& sharding) {
    Config c = small_config();
    c.training.steps = 6;
    c.log.eval_every = 3;
    c.optimizer.name = optimizer;
    c.training.sharding = sharding;
    return c;
  }
  std::vector<Ran> train(const Config& c, size_t ranks, const std::string& name, bool resume = false,
                         const std::string& mesh = {}) const {
    return train_ranks(c, std::vector<std::string>(ranks, where),
                       {.folder = folder / name, .resume = resume, .mesh = mesh, .make = task});
  }
  std::string checkpoints(const std::string& name) const { return RunFolder::checkpoints_of(folder / name); }
  std::string newest(const std::string& name) const { return checkpoint_path(checkpoints(name), 6); }
  // Every state, by name.
  static std::map<std::string, Bytes> states(const std::string& path) {
    std::map<std::string, Bytes> found;
    for (const auto& [name, tensor] : load_checkpoint(path, &device(where)).tensors) found[name] = tensor.to_bytes();
    return found;
  }
  static void expect_same_states(const nn::StateDict& found, const nn::StateDict& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_EQ(found.at(name).to_bytes(), tensor.to_bytes()) << name;
  }
  void expect_broken(const std::string& part) const {
    tests::expect_error<IoError>([&] { (void)load_latest_checkpoint(checkpoints("a"), &device(where)); },
                                 {part.c_str()});
  }

  test::TemporaryFolder folder;
};

TEST_F(ShardedCheckpoints, HoldWhatOneFileWould) {
  for (const std::string optimizer : {"adamw", "adafactor", "muon"}) {
    Config plain = config(optimizer, "none"), shared = config(optimizer, "zero1");
    plain.training.clip_norm = shared.training.clip_norm = plain.training.ema = shared.training.ema = 0;
    (void)train(plain, 4, optimizer);
    (void)train(shared, 4, "shared-" + optimizer);
    const std::map<std::string, Bytes> expected = states(newest(optimizer));
    EXPECT_GT(expected.size(), 16u);
    EXPECT_TRUE(states(newest("shared-" + optimizer)) == expected) << optimizer;
    EXPECT_TRUE(fs::exists(shard_path(newest("shared-" + optimizer), 3, 4)));
    EXPECT_FALSE(fs::exists(shard_path(newest(optimizer), 0, 4)));
  }
}

// Names and lengths alone are in every part. Averages included.
TEST_F(ShardedCheckpoints, TakeTheBytesOfOneFile) {
  const auto bytes_of = [&](const std::string& sharding) {
    Config c = config("adamw", sharding);
    c.training.steps = 1;
    const auto wide = [](DeviceContext& d) {
      return std::make_unique<LayersTask>(std::vector<int64_t>{5, 250, 300, 3}, d);
    };
    (void)train_ranks(c, std::vector<std::string>(4, where), {.folder = folder / sharding, .make = wide});
    uint64_t bytes = 0;
    int files = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(checkpoints(sharding))) {
      if (file.path().filename().string().rfind("step-00000001.", 0) != 0) continue;
      bytes += file.file_size();
      ++files;
    }
    EXPECT_EQ(files, sharding == "none" ? 1 : 5) << sharding;
    return static_cast<double>(bytes);
  };
  const double one = bytes_of("none");
  EXPECT_GT(one, 4 * 4 * 77'000);  // parameters, their averages, two moments
  for (const char* sharding : {"zero1", "zero2", "zero3"}) {
    const double share = bytes_of(sharding) / one;
    RecordProperty(sharding, fmt::format("{:.4f}", share));
    EXPECT_LT(share, 1.01) << sharding;
  }
}

// Pairs that have the same states: the first one saves them.
TEST_F(ShardedCheckpoints, GroupsOfOwnersSaveOnce) {
  Config c = config("adamw", "zero2");
  c.training.clip_norm = 0;
  (void)train(c, 4, "all");
  (void)train(c, 4, "pairs", false, "dp=2,fsdp=2");
  EXPECT_TRUE(fs::exists(shard_path(newest("pairs"), 1, 2)));
  EXPECT_FALSE(fs::exists(shard_path(newest("pairs"), 2, 2)));
  EXPECT_TRUE(states(newest("pairs")) == states(newest("all")));
  Config half = c;
  half.training.limit_steps = 3;
  (void)train(half, 4, "again", false, "dp=2,fsdp=2");
  (void)train(c, 4, "again", true, "dp=2,fsdp=2");
  EXPECT_TRUE(states(newest("again")) == states(newest("all")));
}

// Ranks of another number load the states that four saved, and save them again.
TEST_F(ShardedCheckpoints, AnyNumberOfRanksReadsThem) {
  (void)train(config("adamw", "zero2"), 4, "a");
  const std::map<std::string, Bytes> expected = states(newest("a"));
  for (const int ranks : {1, 2, 3, 8}) {
    const std::string copy = fmt::format("{}/step-00000006.safetensors", folder / std::to_string(ranks));
    fs::create_directories(fs::path(copy).parent_path());
    Metadata manifest;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int rank = 0; rank < ranks; ++rank) tasks.push_back(task(device(where)));
    all_ranks(ranks, [&](World& world) {
      Replicas replicas(world);
      Task& own = *tasks[static_cast<size_t>(world.rank())];
      Optimizers optimizers(
          own, config("adamw", "zero2"), [](int64_t) { return 0.1; }, device(where));
      const ShardLayout layout(elements_to_own(own.model()), {.ranks = ranks, .elementwise = true});
      optimizers.keep_shards(layout.shards_of(world.rank()));
      const Checkpoint file = load_checkpoint(newest("a"), &device(where), States::on_host);
      EXPECT_FALSE(file.tensors.contains("optimizer.0.m"));
      optimizers.load_shards(with_prefix(file.on_host(), optimizer_prefix));
      ShardSave save(replicas.group("checkpoints"), copy, 6, optimizers.shard_states());
      const Metadata made = save.write_part();
      if (world.rank() == 0) manifest = made;
    });
    Checkpoint whole{with_prefix(load_checkpoint(newest("a"), &device(where)).tensors, ""), manifest};
    std::erase_if(whole.tensors, [](const auto& entry) { return entry.first.starts_with(optimizer_prefix); });
    whole.metadata["step"] = "6";
    save_checkpoint(copy, whole);
    EXPECT_TRUE(states(copy) == expected) << ranks;
  }
}

// Parameters and averages that four ranks share, put together by ranks of another number; one file holds them whole.
TEST_F(ShardedCheckpoints, AnyNumberOfRanksReadsSharedParameters) {
  const Config c = config("adamw", "zero3");
  (void)train(c, 4, "a");
  (void)train(config("adamw", "none"), 4, "plain");
  const Checkpoint file = load_checkpoint(newest("a"), &device(where));
  for (const auto& [name, expected] : load_checkpoint(newest("plain"), &device(where)).tensors) {
    const Tensor far = abs(file.tensors.at(name).to(DType::f32) - expected.to(DType::f32));
    EXPECT_LT(far.max().item(), 1e-5) << name;
  }
  const nn::StateDict model = with_prefix(file.tensors, "model."), average = with_prefix(file.tensors, "average.");
  EXPECT_EQ(model.size(), 8u);
  EXPECT_EQ(average.size(), 9u);
  EXPECT_TRUE(file.tensors.contains("optimizer.0.m"));
  for (const int ranks : {1, 2, 3, 8}) {
    std::vector<std::unique_ptr<Task>> tasks;
    for (int rank = 0; rank < ranks; ++rank) tasks.push_back(task(device(where)));
    all_ranks(ranks, [&](World& world) {
      Replicas replicas(world);
      nn::Module& own = tasks[static_cast<size_t>(world.rank())]->model();
      const ShardLayout layout(elements_to_own(own), {.ranks = ranks, .elementwise = true, .bucket_elements = 20});
      ShardedParameters parameters(own, layout, c, replicas);
      parameters.load(model, average);
      const WholeParameters whole = parameters.gathered(true);
      expect_same_states(whole.model, model);
      expect_same_states(whole.average, average);
      EXPECT_TRUE(parameters.gathered(false).model.empty());
    });
  }
}

// The first rank's file of the best step is what the run leaves, whatever came later.
TEST_F(ShardedCheckpoints, TheBestOneIsTakenByAll) {
  Config c = config("adamw", "zero3");
  c.training.ema = 0;
  c.checkpoint.use_best = true;
  const std::vector<double> evaluations{1, 2};
  (void)train_ranks(c, std::vector<std::string>(3, where), {.evaluations = evaluations, .folder = folder / "a"});
  const Checkpoint best = load_checkpoint(checkpoint_path(checkpoints("a"), 3), &device(where));
  const Checkpoint left = load_checkpoint((folder / "a") + "/model.safetensors", &device(where));
  expect_same_states(left.tensors, with_prefix(best.tensors, "model."));
  EXPECT_NE(left.tensors.at("0.weight").to_bytes(),
            load_checkpoint(newest("a"), &device(where)).tensors.at("model.0.weight").to_bytes());
}

// With other ranks, without shards, and from one file.
TEST_F(ShardedCheckpoints, RunsGoOnWithOtherRanks) {
  const std::vector<double> whole = train(config("adamw", "zero1"), 2, "whole").front().losses;
  Config cut = config("adamw", "zero1");
  cut.training.limit_steps = 3;
  for (const auto& [name, sharding, ranks] : {std::tuple("three", "zero2", 3u),
                                              {"two", "zero1", 2u},
                                              {"plain", "none", 2u},
                                              {"one", "zero1", 1u},
                                              {"shared", "zero3", 3u}}) {
    (void)train(cut, 2, name);
    const Config rest = config("adamw", sharding);
    const RunsOfRanks how{.folder = folder / name, .resume = true, .make = task};
    const std::vector<double> losses =
        ranks == 1 ? train_alone(rest, where, how).losses : train(rest, ranks, name, true).front().losses;
    ASSERT_EQ(losses.size(), 3u) << name;
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses[i] / whole[i + 3], 1, 1e-5) << name << i;
    const bool same = losses == std::vector<double>(whole.begin() + 3, whole.end());
    EXPECT_TRUE(same || name != std::string("two"));
  }
  Config one_file = config("adamw", "none");
  one_file.training.limit_steps = 3;
  (void)train(one_file, 2, "file");
  const std::vector<double> losses = train(config("adamw", "zero2"), 3, "file", true).front().losses;
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses.at(i) / whole[i + 3], 1, 1e-5) << i;
  cut.training.sharding = "zero3";
  (void)train(cut, 3, "back");
  const std::vector<double> unshared = train(config("adamw", "none"), 2, "back", true).front().losses;
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(unshared.at(i) / whole[i + 3], 1, 1e-5) << i;
}

// A model is read from the one file, whatever became of the others.
TEST_F(ShardedCheckpoints, WhatIsNotWholeIsRefused) {
  Config c = config("adamw", "zero1");
  c.log.eval_every = 6;
  (void)train(c, 2, "a");
  (void)train(c, 2, "b");
  const std::string part = shard_path(newest("a"), 1, 2);
  const auto spoil = [&](const std::function<void()>& change, const std::string& message) {
    fs::copy_file(part, folder / "kept");
    change();
    expect_broken(message);
    EXPECT_TRUE(load_latest_checkpoint(checkpoints("a"), &device(where), States::left_out));
    fs::rename(folder / "kept", part);
    EXPECT_FALSE(states(newest("a")).empty());
  };
  spoil([&] { fs::remove(part); }, "step-00000006.rank-1-of-2.safetensors: a rank's part is missing");
  spoil([&] { fs::resize_file(part, fs::file_size(part) - 1); }, "step-00000006.rank-1-of-2.safetensors: ");
  const auto flip_a_bit = [&] {
    Bytes bytes = test::read_bytes(part);
    bytes[bytes.size() - 9] ^= 4;
    test::write_bytes(part, bytes);
  };
  spoil(flip_a_bit, "does not match its checksum; the file is damaged");
  spoil([&] { fs::copy_file(shard_path(newest("a"), 0, 2), part, fs::copy_options::overwrite_existing); },
        "it has not the length or the checksum that its checkpoint names");
  Config later = c;
  later.training.steps = 7;
  later.log.eval_every = 7;
  (void)train(later, 2, "later");
  spoil(
      [&] {
        fs::copy_file(shard_path(checkpoint_path(checkpoints("later"), 7), 1, 2), part,
                      fs::copy_options::overwrite_existing);
      },
      "it is of step 7, its checkpoint of step 6");
}

// Older checkpoints go with all their files, and so does what a rank wrote before it was killed.
TEST_F(ShardedCheckpoints, NothingIsLeftBehind) {
  Config c = config("adamw", "zero1");
  c.checkpoint.every = 1;
  c.checkpoint.keep_last = 1;
  c.checkpoint.keep_best = false;
  c.training.limit_steps = 2;
  (void)train(c, 2, "a");
  const std::string lost = shard_path(checkpoint_path(checkpoints("a"), 9), 0, 4);
  fs::copy_file(shard_path(checkpoint_path(checkpoints("a"), 2), 0, 2), lost);
  c.training.limit_steps = 0;
  (void)train(c, 2, "a", true);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints("a"))) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000006.rank-0-of-2.safetensors",
                                             "step-00000006.rank-1-of-2.safetensors", "step-00000006.safetensors"}));
}

}  // namespace
}  // namespace heddle::train
