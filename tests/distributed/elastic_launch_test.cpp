// `heddle launch --elastic`: ranks go on in their processes when one of them is killed. Skipped where mpirun has no
// ULFM; PATH and HEDDLE_MPI name another one. As threads: survivors_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
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

// Whether one of the texts that a file of /proc lists is this one.
bool holds(const std::filesystem::path& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string one; std::getline(file, one, '\0');)
    if (one == word) return true;
  return false;
}

// Those that were told of the folder.
std::vector<int> processes_of(const std::string& folder) {
  std::vector<int> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc"))
    if (holds(process.path() / "cmdline", folder)) found.push_back(std::stoi(process.path().filename().string()));
  return found;
}

// The process of a rank of the run in that folder.
std::optional<int> process_of(const std::string& folder, int rank) {
  for (const int process : processes_of(folder))
    if (holds("/proc/" + std::to_string(process) + "/environ", "OMPI_COMM_WORLD_RANK=" + std::to_string(rank)))
      return process;
  return std::nullopt;
}

// Until it is so, for a minute at most.
template <class Condition>
bool soon(const Condition& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class ElasticLaunch : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "MPI's libraries are not built for sanitizers";
#endif
    if (test::version_of_mpirun() == 0) GTEST_SKIP() << test::no_open_mpi;
    test::write_mnist_folder(data, 96, 20);
  }
  Words training(int ranks, const std::string& steps, const Words& more = {}) {
    Words words{"launch",       "-n",      std::to_string(ranks),
                "--elastic",    "--",      "train",
                "mnist-mlp",    "--data",  data.path(),
                "--out",        out,       "--device",
                "reference:0",  "--batch", "12",
                "--json",       "--seed",  "3",
                "--validation", "0",       "--steps",
                steps};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::vector<Json> events(const Finished& run, const std::string& kind) {
    std::vector<Json> found;
    for (const std::string& line : run.out_lines()) {
      Json event = Json::parse(line, nullptr, false);
      if (!event.is_discarded() && event.value("event", "") == kind) found.push_back(std::move(event));
    }
    return found;
  }
  bool has_trained() const {
    std::ifstream lines(out + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      if (line.find("\"event\":\"step\"") != std::string::npos) return true;
    return false;
  }
  test::TemporaryFolder data, folder;
  const std::string out = folder / "run";
};

TEST_F(ElasticLaunch, AnMpiWithoutUlfmIsRefused) {
  if (test::version_of_mpirun() >= 5) GTEST_SKIP() << "this mpirun may have ULFM";
  const Finished run = test::run_heddle(training(2, "4"));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err.rfind("heddle: [launch] --elastic needs an MPI with ULFM, e.g. Open MPI 5; here is mpirun", 0), 0u)
      << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(ElasticLaunch, TwoWaysToGoOnAreRefused) {
  Words words = training(2, "4");
  words.insert(words.begin() + 1, {"--restarts", "1"});
  const Finished run = test::run_heddle(words);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("[launch] --elastic with --restarts"), std::string::npos) << run.err;
}

// The first rank, who writes and prints, and the only other one beside the last, with its part of the states.
TEST_F(ElasticLaunch, RanksGoOnWithoutOneThatIsKilled) {
  if (test::version_of_mpirun() < 5) GTEST_SKIP() << "mpirun has no ULFM: Open MPI 5 has";
  for (const int victim : {0, 1}) {
    const Words more = victim == 0 ? Words() : Words{"--sharding", "zero1", "--buddy-every", "1"};
    std::filesystem::remove_all(out);
    Finished run;
    std::thread running([&] { run = test::run_heddle(training(2 + (victim == 0), "60", more)); });
    (void)soon([&] { return has_trained(); });
    const std::optional<int> process = process_of(out, victim);
    if (process) ::kill(*process, SIGKILL);
    running.join();
    ASSERT_TRUE(process.has_value()) << run.err;
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::vector<Json> lost = events(run, "lost"), done = events(run, "done");
    ASSERT_EQ(lost.size(), 1u) << run.out << run.err;
    EXPECT_EQ(lost[0]["ranks"], std::vector<int>{victim});
    EXPECT_EQ(lost[0]["taken_back"], 0);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0]["ranks"], victim == 0 ? 2 : 1);
    std::map<int, double> found;
    for (const Json& step : events(run, "step")) found[step["step"]] = step["loss"];
    EXPECT_EQ(found.size(), 60u) << "no update is missing";
    EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
  }
}

// Open MPI 5 does not tell them.
TEST_F(ElasticLaunch, RanksEndWithTheirLauncher) {
  if (test::version_of_mpirun() < 5) GTEST_SKIP() << "mpirun has no ULFM: Open MPI 5 has";
  std::thread running([&] { (void)test::run_heddle(training(2, "100000")); });
  EXPECT_TRUE(soon([&] { return has_trained(); }));
  for (const int process : processes_of(out))
    if (holds("/proc/" + std::to_string(process) + "/cmdline", "launch")) ::kill(process, SIGKILL);
  EXPECT_TRUE(soon([&] { return processes_of(out).empty(); }));
  for (const int process : processes_of(out)) ::kill(process, SIGKILL);
  running.join();
}

}  // namespace
}  // namespace heddle
