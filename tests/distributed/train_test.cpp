// `heddle launch -n N -- train`: ranks that share batches train as one process does. Skipped where Open MPI is not
// installed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/subprocess.h"
#include "tests/distributed/open_mpi.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::Finished;
using Words = std::vector<std::string>;

const std::map<std::string, std::string> without_leaks = {{"ASAN_OPTIONS", "detect_leaks=0"}};  // MPI's own

std::string repeated(size_t length) {
  std::string text;
  while (text.size() < length) text += "the shuttle carries the weft; ";
  return text;
}

class LaunchedTraining : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "MPI's libraries are not built for ThreadSanitizer";
#endif
    if (test::version_of_mpirun() == 0) GTEST_SKIP() << test::no_open_mpi;
    test::write_mnist_folder(data, 96, 20);
  }
  Words training(const std::string& out, Words more = {}) {
    Words words{"train",
                "mnist-mlp",
                "--data",
                data.path(),
                "--out",
                folder / out,
                "--device",
                "reference:0",
                "--batch",
                "16",
                "--json",
                "--seed",
                "3",
                "--validation",
                "0",
                "--set",
                "training.clip_norm=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Finished launch(int ranks, const Words& command, const Words& options = {}, test::RunOptions how = {}) {
    Words words{"launch", "-n", std::to_string(ranks)};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    how.environment.insert(without_leaks.begin(), without_leaks.end());
    return test::run_heddle(words, how);
  }
  static std::vector<Json> events(const Finished& run, const std::string& kind, int exit_code = 0) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    std::vector<Json> found;
    for (const std::string& line : run.out_lines()) {
      Json event = Json::parse(line, nullptr, false);
      EXPECT_FALSE(event.is_discarded()) << line;
      if (event.value("event", "") == kind) found.push_back(std::move(event));
    }
    return found;
  }
  static std::vector<double> losses(const Finished& run) {
    std::vector<double> values;
    for (const Json& step : events(run, "step")) values.push_back(step["loss"]);
    return values;
  }
  // One line, of one rank, and nothing of the run.
  void expect_refused(const Finished& run, const std::string& out, const std::string& part) {
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_FALSE(std::filesystem::exists(folder / out)) << out;
  }
  test::TemporaryFolder data, folder;
};

// Three ranks take 6, 5 and 5 examples of each batch.
TEST_F(LaunchedTraining, RanksTrainAsOneProcess) {
  const std::vector<double> alone = losses(test::run_heddle(training("one", {"--steps", "12"})));
  ASSERT_EQ(alone.size(), 12u);
  for (const int ranks : {2, 3}) {
    const std::string name = "ranks-" + std::to_string(ranks);
    const Finished run = launch(ranks, training(name, {"--steps", "12"}));
    const std::vector<double> shared = losses(run);
    ASSERT_EQ(shared.size(), 12u);
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(shared[i] / alone[i], 1, 1e-5) << ranks << " ranks, step " << i;
    const std::vector<Json> done = events(run, "done");
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0]["ranks"], ranks);
    EXPECT_EQ(done[0]["mesh"], "dp=" + std::to_string(ranks));
    const double gradients = 109386 * 4 * 2.0 * (ranks - 1) / ranks, sent = done[0]["bytes_sent_per_step"];
    EXPECT_GT(sent, gradients);
    EXPECT_LT(sent, 1.02 * gradients);
    for (const char* file : {"model.safetensors", "config.toml", "metrics.jsonl"})
      EXPECT_TRUE(std::filesystem::exists(folder / name + "/" + file)) << file;
  }
}

TEST_F(LaunchedTraining, RunsAreRepeatedBitForBit) {
  const Finished first = launch(2, training("a", {"--steps", "8"})), again = launch(2, training("b", {"--steps", "8"}));
  EXPECT_EQ(losses(first), losses(again));
  EXPECT_EQ(events(first, "done")[0]["parameters_sha256"], events(again, "done")[0]["parameters_sha256"]);
  EXPECT_EQ(events(first, "done")[0]["parameters_sha256"].get<std::string>().size(), 64u);
}

TEST_F(LaunchedTraining, InPartsTheyGiveTheBitsOfOneProcess) {
  const auto tensors = [&](const std::string& name) {
    std::ifstream file(folder / name + "/model.safetensors", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return bytes.substr(sizeof(header) + header);  // behind what names options
  };
  const Words parts{"--steps", "6", "--parts", "2"};
  Words sharded = parts;
  sharded.insert(sharded.end(), {"--sharding", "zero1"});
  const std::vector<double> alone = losses(test::run_heddle(training("one", parts)));
  EXPECT_EQ(losses(launch(2, training("two", parts))), alone);
  EXPECT_EQ(losses(launch(2, training("zero", sharded))), alone);
  EXPECT_EQ(tensors("two"), tensors("one"));
  EXPECT_EQ(tensors("zero"), tensors("one"));
  expect_refused(launch(2, training("a", {"--parts", "1"})), "a", "[train] --parts 1 on 2 ranks: each takes as many");
}

TEST_F(LaunchedTraining, ARunThatWasCutGoesOn) {
  const Finished whole = launch(2, training("whole", {"--steps", "8"}));
  (void)losses(launch(2, training("cut", {"--steps", "8", "--limit-steps", "3"})));
  const Finished rest = launch(2, {"resume", folder / "cut", "--limit-steps", "0", "--json"});
  const std::vector<double> expected = losses(whole), found = losses(rest);
  ASSERT_EQ(found.size(), 5u) << rest.err;
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(found[i], expected[i + 3]) << i;
  EXPECT_EQ(events(rest, "done")[0]["parameters_sha256"], events(whole, "done")[0]["parameters_sha256"]);
}

TEST_F(LaunchedTraining, CtrlCSavesOnceAndEnds) {
  const Finished cut = launch(2, training("cut", {"--steps", "100000"}), {}, {.interrupt_after = "\"step\":3,"});
  EXPECT_EQ(cut.exit_code, 130) << cut.err;
  EXPECT_EQ(cut.err, "");
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder / "cut/checkpoints"))
    names.push_back(file.path().filename().string());
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const auto& n) { return n.ends_with(".safetensors"); }), 1);
  EXPECT_EQ(events(cut, "interrupted", 130).size(), 1u);
}

// Processes of that run: the words of its command line hold the run's folder.
std::vector<int> ranks_of(const std::string& folder) {
  std::vector<int> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "cmdline");
    Words words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    if (words.size() > 1 && words[1] == "train" && std::find(words.begin(), words.end(), folder) != words.end())
      found.push_back(std::stoi(process.path().filename().string()));
  }
  return found;
}

// Once both ranks of the run train.
std::vector<int> ranks_that_train(const std::string& out) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto begun = [&] { return std::filesystem::exists(out + "/metrics.jsonl") && ranks_of(out).size() == 2; };
  while (!begun() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return ranks_of(out);
}

// Rank 1: the later one of two that were started.
TEST_F(LaunchedTraining, ARankThatStandsStillIsNamedInTime) {
  const std::string out = folder / "stopped";
  Finished run;
  std::thread running([&] { run = launch(2, training("stopped", {"--steps", "100000", "--rank-timeout", "2"})); });
  const std::vector<int> ranks = ranks_that_train(out);
  EXPECT_EQ(ranks.size(), 2u);
  if (!ranks.empty()) ::kill(*std::max_element(ranks.begin(), ranks.end()), SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  running.join();
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(2 + 5));
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(run.err.find("rank 0 waited 2 s for all_"), std::string::npos) << run.err;  // whichever it had come to
  EXPECT_NE(run.err.find("rank 1"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_TRUE(ranks_of(out).empty());
}

TEST_F(LaunchedTraining, ARankThatIsKilledEndsAll) {
  const std::string out = folder / "killed";
  Finished run;
  std::thread running([&] { run = launch(2, training("killed", {"--steps", "100000"})); });
  const std::vector<int> ranks = ranks_that_train(out);
  EXPECT_EQ(ranks.size(), 2u);
  if (!ranks.empty()) ::kill(ranks.back(), SIGKILL);
  running.join();
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.err.find("exited on signal 9 (Killed): all ranks ended; resume goes on"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  // mpirun ends before what it killed is gone.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ranks_of(out).empty() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(ranks_of(out).empty());
}

// Three ranks, one of them killed: two go on, and the losses are those of one process, as if nothing had been.
TEST_F(LaunchedTraining, RanksThatAreLeftGoOn) {
  const std::string out = folder / "left";
  const Words more{"--steps", "60", "--checkpoint-every", "1"};
  const std::vector<double> alone = losses(test::run_heddle(training("one", more)));
  Finished run;
  std::thread running([&] { run = launch(3, training("left", more), {"--restarts", "1", "--fewer-ranks"}); });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(out + "/checkpoints/step-00000002.safetensors") &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<int> ranks = ranks_of(out);
  EXPECT_EQ(ranks.size(), 3u);
  if (!ranks.empty()) ::kill(ranks.back(), SIGKILL);
  running.join();
  EXPECT_NE(run.err.find("(Killed): 2 ranks go on from the run's last checkpoint; restarts left: 0"), std::string::npos)
      << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  const std::vector<Json> done = events(run, "done");
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0]["ranks"], 2);
  std::map<int, double> found;  // the steps behind the checkpoint come twice
  for (const Json& step : events(run, "step")) found[step["step"]] = step["loss"];
  ASSERT_EQ(found.size(), 60u);
  for (int i = 0; i < 60; ++i) EXPECT_NEAR(found[i + 1] / alone[static_cast<size_t>(i)], 1, 1e-4) << i;
}

// States of a run that shares them: their bytes, and what reads it.
TEST_F(LaunchedTraining, StatesAreShared) {
  const std::vector<double> alone = losses(test::run_heddle(training("one", {"--steps", "8"})));
  const Finished run = launch(2, training("zero", {"--steps", "8", "--limit-steps", "4", "--sharding", "zero2"}));
  std::vector<double> shared = losses(run);
  const double gradients = 109386 * 4 * 2.0 / 2, sent = events(run, "done").at(0)["bytes_sent_per_step"];
  EXPECT_LT(sent, 1.08 * gradients);
  const Words go_on{"resume", folder / "zero", "--limit-steps", "0", "--json"};
  const std::vector<double> rest = losses(launch(3, go_on));
  shared.insert(shared.end(), rest.begin(), rest.end());
  ASSERT_EQ(shared.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(shared[i] / alone[i], 1, 1e-5) << i;
  const std::string out = folder / "zero";
  std::filesystem::remove(out + "/model.safetensors");
  const Finished read = test::run_heddle({"eval", "--model", out, "--device", "reference:0", "--json"});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  // Those of the latest three, and of the best one.
  std::vector<std::filesystem::path> parts;
  for (const auto& file : std::filesystem::directory_iterator(out + "/checkpoints")) {
    if (file.path().filename().string().find(".rank-1-of-") != std::string::npos) parts.push_back(file.path());
  }
  EXPECT_GE(parts.size(), 3u);
  for (const std::filesystem::path& part : parts) std::filesystem::remove(part);
  expect_refused(test::run_heddle(go_on), "nothing", "a rank's part is missing");
}

// Parameters as well, with averages: other ranks go on, and one process reads what they leave.
TEST_F(LaunchedTraining, ParametersAreShared) {
  const Words averaged{"--steps", "8", "--ema", "0.9"};
  const std::vector<double> alone = losses(test::run_heddle(training("one", averaged)));
  Words first = averaged;
  first.insert(first.end(), {"--limit-steps", "4", "--sharding", "zero3", "--use-best"});
  std::vector<double> shared = losses(launch(2, training("zero", first)));
  const std::vector<double> rest = losses(launch(3, {"resume", folder / "zero", "--limit-steps", "0", "--json"}));
  shared.insert(shared.end(), rest.begin(), rest.end());
  ASSERT_EQ(shared.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(shared[i] / alone[i], 1, 1e-5) << i;
  const std::string out = folder / "zero";
  for (const bool model : {true, false}) {
    const Finished read = test::run_heddle({"eval", "--model", out, "--device", "reference:0", "--json"});
    EXPECT_EQ(read.exit_code, 0) << read.err;
    if (model) std::filesystem::remove(out + "/model.safetensors");
  }
}

// HEDDLE_TEST_KILLS: how often, instead of 3.
TEST_F(LaunchedTraining, KilledWhileSavingTheyLeaveAWholeCheckpoint) {
  const char* const times = std::getenv("HEDDLE_TEST_KILLS");
  const int count = times != nullptr ? std::atoi(times) : 3;
  std::mt19937 random(static_cast<uint32_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::string name = "killed-" + std::to_string(i), out = folder / name;
    const Words more{"--steps", "100000", "--sharding", "zero1", "--checkpoint-every", "1", "--keep-last", "2"};
    std::thread running([&] { (void)launch(2, training(name, more)); });
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto saved = [&] { return std::filesystem::exists(out + "/checkpoints/step-00000002.safetensors"); };
    while (!saved() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100000));
    const std::vector<int> ranks = ranks_of(out);
    EXPECT_EQ(ranks.size(), 2u);
    if (!ranks.empty()) ::kill(ranks[random() % ranks.size()], SIGKILL);
    running.join();
    const Finished read = test::run_heddle({"resume", out, "--limit-steps", "1", "--json"});
    EXPECT_EQ(read.exit_code, 0) << read.err;
    EXPECT_EQ(read.err, "");
    EXPECT_GE(events(read, "done").at(0)["step"], 2);
  }
}

TEST_F(LaunchedTraining, DevicesOfTwoKindsTrainTogether) {
  Words command = training("mixed", {"--steps", "6"});
  const auto device = std::find(command.begin(), command.end(), "--device");
  const Finished one = test::run_heddle(training("one", {"--steps", "6"}));
  command.erase(device, device + 2);
  const Finished run = launch(2, command, {"--devices", "reference:0,opencl:0"});
  if (run.exit_code == 2) GTEST_SKIP() << run.err;  // there is no OpenCL here
  const std::vector<double> alone = losses(one), shared = losses(run);
  ASSERT_EQ(shared.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(shared[i] / alone[i], 1, 1e-4) << i;
}

// Heads on two ranks, then blocks, then one process: one run.
TEST_F(LaunchedTraining, RanksHavePartsOfAModel) {
  std::ofstream(folder / "text.txt") << repeated(4000);
  const auto gpt = [&](const std::string& out, Words more = {}) {
    Words words{"train",        "char-gpt", "--data",      folder / "text.txt", "--out",
                folder / out,   "--device", "reference:0", "--batch",           "4",
                "--json",       "--steps",  "6",           "--limit-test",      "4",
                "--eval-every", "6"};
    for (const char* size : {"layers=2", "heads=2", "width=8", "context=8"})
      words.insert(words.end(), {"--set", std::string("model.") + size});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words resume{"resume", folder / "parts", "--json"};
  const std::vector<double> alone = losses(test::run_heddle(gpt("one")));
  const Finished tensor = launch(2, gpt("parts", {"--mesh", "tp=2", "--limit-steps", "2"}));
  std::vector<double> found = losses(tensor);
  EXPECT_EQ(events(tensor, "done")[0]["mesh"], "tp=2");
  Words staged = resume;
  staged.insert(staged.end(), {"--mesh", "pp=2", "--microbatches", "2", "--limit-steps", "4"});
  const Finished stages = launch(2, staged);
  for (const double loss : losses(stages)) found.push_back(loss);
  EXPECT_TRUE(events(stages, "done")[0].contains("bubble"));
  Words whole = resume;
  whole.insert(whole.end(), {"--limit-steps", "0", "--microbatches", "0"});
  for (const double loss : losses(test::run_heddle(whole))) found.push_back(loss);
  ASSERT_EQ(found.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(found[i] / alone[i], 1, 1e-5) << i;
}

TEST_F(LaunchedTraining, WhatCannotBeSharedIsRefused) {
  Words small = training("a");
  *std::find(small.begin(), small.end(), "16") = "2";
  expect_refused(launch(3, small), "a", "[train] a batch of 2 for 3 ranks: each takes one example at least");
  expect_refused(launch(2, training("b", {"--mesh", "dp=3"})), "b", "[mesh] dp=3 needs 3 ranks; the world has 2");
  expect_refused(launch(2, training("c", {"--mesh", "tp=2"})), "c",
                 "[mesh] tp=2: the model of mnist-mlp has no layers in parts");
  expect_refused(launch(2, training("c", {"--rank-timeout", "0"})), "c", "[train] --rank-timeout is 0; it must be");
  expect_refused(launch(2, {"train", "nothing"}), "d", "unknown recipe 'nothing'");
  expect_refused(launch(2, training("e"), {"--restarts", "-1"}), "e", "[launch] --restarts is -1; it must be at least");
  expect_refused(launch(2, training("e"), {"--fewer-ranks"}), "e", "[launch] --fewer-ranks is of restarts");
  expect_refused(launch(2, {"train", "mnist-mlp"}, {"--restarts", "1"}), "e", "[launch] --restarts needs --out");
  expect_refused(launch(2, training("e", {"--mesh", "dp=2"}), {"--restarts", "1", "--fewer-ranks"}), "e",
                 "[launch] --fewer-ranks with --mesh");
  expect_refused(test::run_heddle(training("d", {"--mesh", "dp=2"})), "d",
                 "[mesh] dp=2 needs 2 ranks; the world has 1");
}

TEST_F(LaunchedTraining, RanksWithOtherOptionsAreNamed) {
  const std::string with_own_rate = "exec \"$@\" --lr 1e-$((3 - OMPI_COMM_WORLD_RANK))";
  Words words{"/usr/bin/env", "mpirun", "--oversubscribe", "-n", "2", "/bin/sh", "-c", with_own_rate, "sh"};
  words.push_back(std::string(HEDDLE_BINARY_DIR) + "/bin/heddle");
  const Words command = training("a");
  words.insert(words.end(), command.begin(), command.end());
  const Finished run = test::run_program(words, {.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                                                 {"OMPI_MCA_plm", "isolated"},
                                                                 {"OMPI_MCA_btl", "^tcp"},
                                                                 {"ASAN_OPTIONS", "detect_leaks=0"}}});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.err.rfind("heddle: [train] rank 1 has other options than rank 0", 0), 0u) << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_F(LaunchedTraining, ItsOwnOptionsAreChecked) {
  expect_refused(launch(0, training("a")), "a", "[launch] -n is 0; it must be at least 1");
  expect_refused(launch(2, {"eval", "x"}), "a", "[launch] 'eval' does not run as several ranks; train and resume do");
  expect_refused(test::run_heddle({"launch", "-n", "2", "--devices", "reference:0", "--", "train", "mnist-mlp"}), "a",
                 "[launch] --devices names 1 for 2 ranks");
  expect_refused(launch(2, training("a"), {"--devices", "reference:0,reference:0"}), "a",
                 "[launch] --devices names the devices of the ranks, and --device another one for all");
  expect_refused(launch(2, training("a"), {"--hosts", "a:0"}), "a", "[launch] 'a:0' is no host");
  expect_refused(launch(2, training("a"), {"--hosts", "localhost"}), "a", "--hosts has 1 place for 2 ranks");
  expect_refused(launch(2, training("a"), {}, {.environment = {{"PATH", "/"}}}), "a",
                 "[launch] mpirun is not installed; Debian's package is openmpi-bin");
  const Finished unreachable = launch(1, training("a"), {"--hosts", "no-such-host.invalid"});
  if (unreachable.err.find("needs ssh") == std::string::npos)
    expect_refused(unreachable, "a", "[launch] mpirun could not start the ranks: ssh: Could not resolve hostname");
}

}  // namespace
}  // namespace heddle
