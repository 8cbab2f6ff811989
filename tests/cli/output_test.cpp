// What becomes of output that gets nowhere, of files opened while the standard streams are closed, and of signals that
// end a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "heddle/io/safetensors.h"
#include "tests/cli/subprocess.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::Finished;
using test::Output;

class LostOutput : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(LostOutput, IsToldByTheExitCode) {
  const Finished full = test::run_heddle(GetParam(), {.output = Output::full_disk});
  EXPECT_EQ(full.exit_code, 1) << full.signal;
  EXPECT_EQ(std::count(full.err.begin(), full.err.end(), '\n'), 1) << full.err;
  EXPECT_TRUE(contains(full.err, "heddle: standard output: "));
  EXPECT_TRUE(contains(full.err, "No space left on device"));
  EXPECT_EQ(test::run_heddle(GetParam(), {.output = Output::closed}).exit_code, 1);
  EXPECT_EQ(test::run_heddle(GetParam(), {.output = Output::broken_pipe}).signal, SIGPIPE);  // as other tools
  EXPECT_EQ(test::run_heddle(GetParam()).exit_code, 0);
}
INSTANTIATE_TEST_SUITE_P(Commands, LostOutput,
                         testing::Values(std::vector<std::string>{"version"},
                                         std::vector<std::string>{"version", "--json"}, std::vector<std::string>{"ops"},
                                         std::vector<std::string>{"ops", "--json"}, std::vector<std::string>{"man"},
                                         std::vector<std::string>{"--help"},
                                         std::vector<std::string>{"completion", "bash"},
                                         std::vector<std::string>{"bench", "matmul", "--list"}));

class RunWithoutStreams : public testing::Test {
 protected:
  RunWithoutStreams() { test::write_mnist_folder(data, 96, 20); }
  Finished train(std::vector<std::string> more, const test::RunOptions& options) {
    more.insert(more.begin(), {"train", "mnist-mlp", "--data", data.path(), "--out", out, "--device", "reference:0",
                               "--batch", "16", "--validation", "0"});
    return test::run_heddle(more, options);
  }
  // Every line is JSON; gives the events.
  std::vector<std::string> events() const {
    std::vector<std::string> found;
    std::istringstream lines(test::read_text(out + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json event = Json::parse(line, nullptr, false);
      EXPECT_TRUE(event.is_object()) << line;
      if (event.is_object()) found.push_back(event["event"]);
    }
    return found;
  }
  test::TemporaryFolder data, parent;
  const std::string out = parent / "run";
};

// Files that are opened then must not get the numbers of the streams, or the progress lines land in them.
TEST_F(RunWithoutStreams, ProgressLandsInNoFile) {
  EXPECT_EQ(train({"--epochs", "2", "--tensorboard"}, {.output = Output::closed}).exit_code, 1);
  EXPECT_EQ(std::filesystem::file_size(out + "/.lock"), 0u);
  const std::vector<std::string> found = events();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back(), "done");
  EXPECT_FALSE(load_safetensors(out + "/model.safetensors").tensors.empty());
}

TEST_F(RunWithoutStreams, TrainingGoesOnWithoutItsOutput) {
  const Finished run =
      train({"--epochs", "8", "--json"}, {.output = Output::full_disk});  // more than a buffer's worth of lines
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_EQ(events().back(), "done");
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

// Slurm and Kubernetes send it before they kill.
TEST_F(RunWithoutStreams, TheSignalOfJobSystemsSaves) {
  const Finished run = train({"--epochs", "100000", "--json"}, {.interrupt_after = "\"step\":20,", .signal = SIGTERM});
  EXPECT_EQ(run.exit_code, 143) << run.signal << run.err;
  const Json last = Json::parse(run.out_lines().back());
  EXPECT_EQ(last["event"], "interrupted");
  EXPECT_GE(last["step"], 20);
  EXPECT_EQ(load_safetensors(last["checkpoint"].get<std::string>()).metadata.at("step"), last["step"].dump());
  const Finished rest = test::run_heddle({"resume", out, "--epochs", "100000", "--json"},
                                         {.interrupt_after = "\"event\":\"step\"", .signal = SIGTERM});
  EXPECT_EQ(rest.exit_code, 143) << rest.signal << rest.err;
  EXPECT_GT(Json::parse(rest.out_lines().back())["step"], last["step"]);
}

}  // namespace
}  // namespace heddle
