// heddle plan --mesh beside ranks that train: bytes that the first rank sends for an update, and the peak of its
// device's memory. Skipped where Open MPI is not installed, or no device has kernels.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/subprocess.h"
#include "tests/distributed/open_mpi.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Planned {
  std::string recipe, mesh;
  int ranks;
  std::string batch, sharding = "none", microbatches = "";
};

class PlannedRanks : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "MPI's libraries are not built for ThreadSanitizer";
#endif
    if (test::kernel_devices().empty()) GTEST_SKIP() << "no device has kernels";
    if (test::version_of_mpirun() == 0) GTEST_SKIP() << test::no_open_mpi;
    device_ = test::kernel_devices().front();
    std::ofstream text(folder_ / "text.txt");  // 65 characters, as the plan of char-gpt has
    for (int i = 0; i < 6000; ++i) text << static_cast<char>(i % 65 == 64 ? '\n' : 33 + i % 65);
  }
  // Of an update by messages: ranks of one host would have lists in memory that both see.
  static std::map<std::string, std::string> environment() {
    return {{"ASAN_OPTIONS", "detect_leaks=0"}, {"HEDDLE_SHARED_LISTS", "0"}};
  }
  static Json last_line(const test::Finished& run) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out_lines().back(), nullptr, false);
  }

  void expect_as_planned(const Planned& p) {
    Words plan{"plan", p.recipe, "--mesh", p.mesh, "--batch", p.batch, "--sharding", p.sharding};
    Words train{"launch",  "-n",         std::to_string(p.ranks),
                "--",      "train",      p.recipe,
                "--mesh",  p.mesh,       "--batch",
                p.batch,   "--sharding", p.sharding,
                "--steps", "12"};
    for (Words* words : {&plan, &train}) {
      words->insert(words->end(), {"--device", device_, "--json"});
      if (!p.microbatches.empty()) words->insert(words->end(), {"--microbatches", p.microbatches});
    }
    train.insert(train.end(), {"--out", folder_ / p.mesh + p.sharding, "--limit-test", "1", "--eval-every", "1000",
                               "--checkpoint-every", "1000"});
    if (p.recipe == "char-gpt")
      train.insert(train.end(), {"--data", folder_ / "text.txt", "--set", "log.sample_every=1000"});
    const test::Finished planned = test::run_heddle(plan);
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    const Json first = Json::parse(planned.out_lines().front(), nullptr, false);
    const Json done = last_line(test::run_heddle(train, {.environment = environment()}));
    EXPECT_TRUE(first["rehearsed"]) << first;
    EXPECT_EQ(first["bytes_per_step"], done["bytes_sent_per_step"]) << p.mesh << " " << p.sharding;
    const double peak = done["peak_device_bytes"];
    EXPECT_NEAR(first["memory_bytes"]["peak"].get<double>(), peak, 0.05 * peak) << p.mesh << " " << p.sharding;
  }

 private:
  std::string device_;
  test::TemporaryFolder folder_;
};

TEST_F(PlannedRanks, ThatShareBatches) {
  expect_as_planned({.recipe = "mnist-mlp", .mesh = "dp=3", .ranks = 3, .batch = "96"});
  expect_as_planned({.recipe = "mnist-mlp", .mesh = "dp=2", .ranks = 2, .batch = "128", .sharding = "zero3"});
}

TEST_F(PlannedRanks, ThatHavePartsOfAModel) {
  expect_as_planned({.recipe = "char-gpt", .mesh = "tp=2", .ranks = 2, .batch = "2"});
  expect_as_planned({.recipe = "char-gpt", .mesh = "pp=2", .ranks = 2, .batch = "2", .microbatches = "2"});
}

}  // namespace
}  // namespace heddle
