// train/checkpoint.h: whole, asynchronous, checked, and what stays after faults.
#include "heddle/train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/io/atomic_file.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/host.h"

namespace heddle::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::thrown_text;
using Names = std::vector<std::string>;

Checkpoint example(float value) {
  Checkpoint c;
  c.tensors["model.weight"] = full({3, 5}, value, DType::f32, &host());
  c.tensors["optimizer.0.step"] = Tensor::from_vector(std::vector<int64_t>{int64_t{1} << 60}, {}, &host());
  c.tensors["empty"] = zeros({0, 4}, DType::bf16, &host());
  c.metadata = {{"recipe", "mnist-mlp"}, {"code", "0123"}, {"text", "a \"b\"\nü"}};
  return c;
}

class Checkpoints : public testing::Test {
 protected:
  Names names() const { return folder.names(); }
  std::string path(int64_t step) const { return checkpoint_path(folder.path(), step); }
  float value_of(int64_t step) const {
    return load_checkpoint(path(step), &host()).tensors.at("model.weight").to_vector<float>()[0];
  }
  void save(CheckpointWriter& writer, int64_t step, std::optional<double> score = {}) const {
    writer.save(step, example(static_cast<float>(step)), score);
  }

  test::TemporaryFolder folder;
};

// A checksum would take their place in the file.
TEST_F(Checkpoints, NamesOfChecksumsAreRefused) {
  for (const std::string key : {"crc32", "crc32.model.weight", "crc32.any"}) {
    Checkpoint c = example(1);
    c.metadata[key] = "mine";
    EXPECT_EQ(thrown_text<ValueError>([&] { save_checkpoint(path(1), c); }),
              "[checkpoint] metadata '" + key + "' is a checksum's name; give it another");
  }
  EXPECT_EQ(names(), Names{});
  Checkpoint c = example(1);
  c.metadata["crc32c"] = "mine";
  save_checkpoint(path(1), c);
  EXPECT_EQ(load_checkpoint(path(1), &host()).metadata, c.metadata);
}

TEST_F(Checkpoints, ComeBackWhole) {
  CheckpointWriter writer(folder.path());
  const std::string file = writer.save(7, example(2), 0.5);
  writer.wait();
  EXPECT_EQ(file, path(7));
  EXPECT_EQ(names(), Names{"step-00000007.safetensors"});
  const Checkpoint back = load_checkpoint(file, &host());
  EXPECT_EQ(back.tensors.at("model.weight").to_vector<float>(), std::vector<float>(15, 2));
  EXPECT_EQ(back.tensors.at("optimizer.0.step").to_bytes(), example(0).tensors.at("optimizer.0.step").to_bytes());
  EXPECT_EQ(back.tensors.at("empty").shape(), (Shape{0, 4}));
  EXPECT_EQ(back.tensors.at("empty").dtype(), DType::bf16);
  EXPECT_EQ(back.metadata,
            (Metadata{{"recipe", "mnist-mlp"}, {"code", "0123"}, {"text", "a \"b\"\nü"}, {"score", "0.5"}}));
}

TEST_F(Checkpoints, HoldTheValuesOfTheCall) {
  CheckpointWriter writer(folder.path());
  Checkpoint c = example(1);
  Tensor& weight = c.tensors["model.weight"];
  writer.save(1, c);
  weight.assign(full({3, 5}, 2.f, DType::f32, &host()));
  writer.save(2, c);
  weight.assign(full({3, 5}, 3.f, DType::f32, &host()));
  writer.wait();
  EXPECT_EQ(value_of(1), 1);
  EXPECT_EQ(value_of(2), 2);
}

TEST_F(Checkpoints, TheLastAndTheBestStay) {
  CheckpointWriter writer(folder.path(), {.keep_last = 2});
  const double scores[] = {3, 1, 2, 1.5, 1.25};
  for (int64_t step = 0; step < 5; ++step) save(writer, step * 10, scores[step]);
  writer.wait();
  EXPECT_EQ(names(), (Names{"step-00000010.safetensors", "step-00000030.safetensors", "step-00000040.safetensors"}));
  // A new process knows the best from the file; a score that is no number is never the best.
  CheckpointWriter next(folder.path(), {.keep_last = 1});
  save(next, 50, std::nan(""));
  next.wait();
  EXPECT_EQ(names(), (Names{"step-00000010.safetensors", "step-00000050.safetensors"}));
  CheckpointWriter without(folder.path(), {.keep_last = 1, .keep_best = false});
  save(without, 60, 9);
  without.wait();
  EXPECT_EQ(names(), Names{"step-00000060.safetensors"});
  EXPECT_THROW(CheckpointWriter(folder.path(), {.keep_last = 0}), ValueError);
}

TEST_F(Checkpoints, LaterStepsOfAnAbandonedRunGo) {
  CheckpointWriter writer(folder.path());
  for (const int64_t step : {10, 20, 30}) save(writer, step, 1.0 / static_cast<double>(step));
  writer.wait();
  CheckpointWriter again(folder.path());  // goes on from step 10
  save(again, 15);
  again.wait();
  EXPECT_EQ(names(), (Names{"step-00000010.safetensors", "step-00000015.safetensors"}));
}

// A step that is saved again, as a resumed run does: its old score is forgotten with its old file.
TEST_F(Checkpoints, AStepSavedAgainHasItsNewScore) {
  CheckpointWriter writer(folder.path(), {.keep_last = 1});
  save(writer, 10, 1);
  save(writer, 10, 9);
  save(writer, 20, 5);
  writer.wait();
  EXPECT_EQ(names(), Names{"step-00000020.safetensors"});
}

TEST_F(Checkpoints, EveryFlippedBitIsFound) {
  save_checkpoint(path(1), example(1));
  const std::vector<uint8_t> whole = test::read_bytes(path(1));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<uint8_t> flipped = whole;
    flipped[i] ^= static_cast<uint8_t>(1u << (i % 8));
    test::write_bytes(path(1), flipped);
    EXPECT_THROW(load_checkpoint(path(1), &host()), IoError) << "byte " << i << " of " << whole.size();
  }
  for (size_t bytes = 0; bytes < whole.size(); bytes += 13) {
    test::write_bytes(path(1), {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    EXPECT_THROW(load_checkpoint(path(1), &host()), IoError) << bytes << " bytes";
  }
  test::write_bytes(path(1), whole);
  EXPECT_EQ(value_of(1), 1);
}

TEST_F(Checkpoints, TheNewestWholeOneIsOffered) {
  EXPECT_FALSE(load_latest_checkpoint(folder.path(), &host()));
  EXPECT_FALSE(load_latest_checkpoint(folder / "none", &host()));
  CheckpointWriter writer(folder.path());
  for (const int64_t step : {1, 2, 3}) save(writer, step);
  writer.wait();
  fs::resize_file(path(3), fs::file_size(path(3)) - 1);
  std::vector<uint8_t> bytes = test::read_bytes(path(2));
  bytes[bytes.size() - 3] ^= 4;  // of the weight
  test::write_bytes(path(2), bytes);
  const std::string error = thrown_text<IoError>([&] { load_checkpoint(path(2), &host()); });
  EXPECT_EQ(
      error,
      "[checkpoint] " + path(2) +
          ": tensor 'model.weight' does not match its checksum; the file is damaged; the one before it is whole: " +
          path(1));
  const auto latest = load_latest_checkpoint(folder.path(), &host());
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->step, 1);
  EXPECT_EQ(latest->path, path(1));
  ASSERT_EQ(latest->broken.size(), 2u);
  EXPECT_TRUE(contains(latest->broken[0], path(3)));
  EXPECT_TRUE(contains(latest->broken[1], path(2)));
  fs::resize_file(path(1), 5);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { load_latest_checkpoint(folder.path(), &host()); }),
                       "no checkpoint is whole"));
}

TEST_F(Checkpoints, AnotherFileIsNoCheckpoint) {
  save_safetensors(path(1), TensorMap{{"w", zeros({2}, DType::f32, &host())}});
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { load_checkpoint(path(1), &host()); }),
                       "its header has no checksum; not a checkpoint"));
}

TEST_F(Checkpoints, UnfinishedFilesOfAKilledProcessGo) {
  write_file_atomically(path(1) + ".tmp-99-0", "half");
  write_file_atomically(folder / "notes.tmp-1", "mine");
  const CheckpointWriter writer(folder.path());
  EXPECT_EQ(names(), Names{"notes.tmp-1"});
}

// A disk that is full, as far as one process can see: files may not grow beyond 4 KiB.
TEST_F(Checkpoints, AFullDiskLeavesNoPart) {
  save_checkpoint(path(1), example(1));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);  // write() then fails with EFBIG
  const rlimit small{4096, before.rlim_max};
  Checkpoint large = example(2);
  large.tensors["large"] = zeros({3000}, DType::f32, &host());
  CheckpointWriter writer(folder.path());
  ::setrlimit(RLIMIT_FSIZE, &small);
  writer.save(2, large);
  const std::string error = thrown_text<IoError>([&] { writer.wait(); });
  EXPECT_TRUE(contains(error, path(2) + ": cannot write"));
  writer.save(3, large);
  EXPECT_THROW(writer.save(4, large), IoError);  // the next call hears of it too
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_EQ(names(), Names{"step-00000001.safetensors"});
  writer.save(5, large);  // there is room again
  writer.wait();
  EXPECT_EQ(names(), (Names{"step-00000001.safetensors", "step-00000005.safetensors"}));
}

// Processes that are killed while they write: a whole one can always be loaded.
TEST_F(Checkpoints, AKilledProcessLeavesAWholeOne) {
  save_checkpoint(path(1), example(1));
  for (int kill = 0; kill < 8; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      CheckpointWriter writer(folder.path());
      for (int64_t step = 2;; ++step) writer.save(step, example(static_cast<float>(step)));
    }
    ::usleep(3000 + 2500 * static_cast<useconds_t>(kill));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const auto latest = load_latest_checkpoint(folder.path(), &host());
    ASSERT_TRUE(latest);
    EXPECT_TRUE(latest->broken.empty());
    EXPECT_EQ(latest->checkpoint.tensors.at("model.weight").to_vector<float>()[0], static_cast<float>(latest->step));
  }
}

TEST_F(Checkpoints, MoveBetweenDevices) {
  for (const std::string& from : test::value_devices()) {
    Checkpoint c;
    c.tensors["w"] = uniform({33, 7}, -1, 1, &device(from));
    save_checkpoint(path(1), c);
    for (const std::string& to : test::value_devices())
      EXPECT_EQ(load_checkpoint(path(1), &device(to)).tensors.at("w").to_bytes(), c.tensors["w"].to_bytes())
          << from << " to " << to;
  }
}

}  // namespace
}  // namespace heddle::train
