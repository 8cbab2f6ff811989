// Runs of `heddle train` that end before their time (a limit, a kill, Ctrl-C, a NaN), and what `heddle resume` makes of
// them.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/io/safetensors.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/train_fixture.h"
#include "tests/support/idx_files.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::Bytes;
using test::contains;
using test::Finished;
using test::Train;

TEST_F(Train, ResumeGoesOnExactly) {
  const Finished whole = train({"--epochs", "3", "--json"});
  const std::string straight = out + "/model.safetensors";
  const Bytes expected = test::read_bytes(straight);
  std::filesystem::remove_all(out);
  const Finished first = train({"--epochs", "3", "--limit-steps", "8", "--json"});
  const Finished rest = test::run_heddle({"resume", out, "--limit-steps", "0", "--json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  std::vector<double> joined = losses(first);
  const std::vector<double> tail = losses(rest);
  joined.insert(joined.end(), tail.begin(), tail.end());
  EXPECT_EQ(joined, losses(whole));
  EXPECT_EQ(test::read_bytes(straight), expected);
}

// HEDDLE_TEST_KILLS and HEDDLE_TEST_KILL_DEVICE for more moments, and elsewhere.
TEST_F(Train, KilledAtRandomMomentsItGoesOnExactly) {
  const char* kills = std::getenv("HEDDLE_TEST_KILLS");
  const char* where = std::getenv("HEDDLE_TEST_KILL_DEVICE");
  const std::vector<std::string> options{"--epochs",
                                         "12",
                                         "--checkpoint-every",
                                         "3",
                                         "--ema",
                                         "0.9",
                                         "--set",
                                         "log.eval_every=7",
                                         "--json",
                                         "--device",
                                         where != nullptr ? where : "reference:0"};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<double> expected = losses(train(options));
  int64_t longest =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  ASSERT_EQ(expected.size(), 72u);
  const Bytes model = test::read_bytes(out + "/model.safetensors");
  std::filesystem::remove_all(out);

  std::mt19937 random(std::random_device{}());
  int killed = 0;
  const int wanted = kills != nullptr ? std::atoi(kills) : 3;
  for (int attempt = 0; killed < wanted && attempt < 10 * wanted; ++attempt) {
    std::vector<std::string> more = options;
    if (std::filesystem::exists(out + "/config.toml"))
      more.push_back("--resume");
    else
      std::filesystem::remove_all(out);
    const Finished run = train(
        more,
        {.limit = std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(longest / 20, longest)(random))});
    killed += run.signal == SIGKILL ? 1 : 0;
    ASSERT_TRUE(run.signal == SIGKILL || run.exit_code == 0) << run.err;
    if (run.exit_code != 0) continue;
    std::filesystem::remove_all(
        out);  // it was faster, as after a pause of the machine in the first run: from the beginning, and sooner
    longest = longest * 3 / 4;
  }
  EXPECT_EQ(killed, wanted);
  std::vector<std::string> last = options;
  if (std::filesystem::exists(out + "/config.toml")) last.push_back("--resume");
  ASSERT_EQ(train(last).exit_code, 0);
  std::ifstream metrics(out + "/metrics.jsonl");
  std::map<int64_t, int> seen;
  for (std::string line; std::getline(metrics, line);) {
    const Json event = Json::parse(line);
    if (event["event"] != "step") continue;
    const auto step = event["step"].get<int64_t>();
    ++seen[step];
    EXPECT_EQ(event["loss"].get<double>(), expected.at(static_cast<size_t>(step - 1)))
        << step;  // also those that were done twice
  }
  EXPECT_EQ(seen.size(), expected.size());
  EXPECT_EQ(test::read_bytes(out + "/model.safetensors"), model);
}

TEST_F(Train, ARunIsNotOverwritten) {
  ASSERT_EQ(train({"--epochs", "1", "--limit-steps", "2"}).exit_code, 0);
  const Finished again = train({"--epochs", "1"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(contains(again.err, "holds a run; --resume goes on with it"));
}

TEST_F(Train, ResumeChecksTheCheckpoint) {
  ASSERT_EQ(train({"--epochs", "1", "--limit-steps", "2"}).exit_code, 0);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& part) {
    const Finished run = train(more);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_TRUE(contains(run.err, part));
  };
  refused({"--resume", "--seed", "2"}, "seed 1, this run has 2");
  refused({"--resume", "--optimizer", "sgd"}, "optimizer adam, this run has sgd");
  std::filesystem::resize_file(checkpoint(2), 1000);
  refused({"--resume"}, checkpoint(2));
  std::filesystem::remove(checkpoint(2));
  const Finished again = train({"--resume", "--epochs", "1", "--limit-steps", "2"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "holds no checkpoint yet: the run begins again"));
}

TEST_F(Train, AFinishedRunThatIsResumedHasNoLoss) {
  ASSERT_EQ(train({"--epochs", "1"}).exit_code, 0);
  const Finished again = test::run_heddle({"resume", out});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(again.out, "resumed at step 6"));
  EXPECT_TRUE(contains(again.out, "epoch 1/1  test loss "));
  EXPECT_FALSE(contains(again.out, "loss 0.0000"));
}

TEST_F(Train, CtrlCSavesAndEnds) {
  const Finished run = train({"--epochs", "100000", "--json"}, {.interrupt_after = "\"step\":20,"});
  EXPECT_EQ(run.exit_code, 130) << run.err;
  const Json last = Json::parse(run.out_lines().back());
  EXPECT_EQ(last["event"], "interrupted");
  const int64_t steps = last["step"].get<int64_t>();
  EXPECT_GE(steps, 20);
  EXPECT_EQ(last["checkpoint"], checkpoint(steps));
  EXPECT_EQ(load_safetensors(checkpoint(steps), &device("reference:0")).metadata.at("step"), std::to_string(steps));
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

TEST_F(Train, NanStopsAndKeepsTheLastGoodCheckpoint) {
  const Finished run = train({"--epochs", "4", "--optimizer", "sgd", "--lr", "1e30", "--schedule", "constant", "--json",
                              "--checkpoint-every", "1"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(contains(run.err, "at step 2"));
  EXPECT_TRUE(contains(run.err, "learning rate"));
  EXPECT_TRUE(contains(run.err, "last good checkpoint is " + checkpoint(1)));
  EXPECT_FALSE(std::filesystem::exists(out + "/model.safetensors"));
  EXPECT_EQ(load_safetensors(checkpoint(1), &device("reference:0")).metadata.at("step"), "1");
  EXPECT_FALSE(std::filesystem::exists(checkpoint(2)));
  std::filesystem::remove_all(out);
  const Finished none = train(
      {"--optimizer", "sgd", "--lr", "1e30", "--schedule", "constant"});  // found at the window's end, named by step
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(contains(none.err, "at step 2, first in the weight 0.weight; no checkpoint had been written yet"));
  EXPECT_TRUE(std::filesystem::is_empty(out + "/checkpoints"));
  std::filesystem::remove_all(out);
  const Finished checked = train({"--optimizer", "sgd", "--lr", "1e30", "--schedule", "constant", "--check-numbers"});
  EXPECT_EQ(checked.exit_code, 2);
  for (const char* part :
       {"[check_numbers] '", "its inputs: ", "(image_classifier.cpp:", "at step 2; no checkpoint had been written yet"})
    EXPECT_TRUE(contains(checked.err, part));
}

}  // namespace
}  // namespace heddle
