// One turn of the script that kills ranks; a hundred take minutes (tools/kill_check.sh).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/subprocess.h"

namespace heddle::distributed {
namespace {

using heddle::test::Finished;
using heddle::test::run_program;

Finished script(const std::vector<std::string>& words) {
  std::vector<std::string> command = {"/usr/bin/env", "bash", std::string(HEDDLE_SOURCE_DIR) + "/tools/" + words[0]};
  command.insert(command.end(), words.begin() + 1, words.end());
  // The build's folder, from that of the sources.
  const std::string build = std::string(HEDDLE_BINARY_DIR).substr(std::string(HEDDLE_SOURCE_DIR).size() + 1);
  return run_program(command, {.environment = {{"BUILD", build}, {"SEED", "7"}}});
}

class Scripts : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the programs under test are those of a build without sanitizers";
#endif
    if (std::string(HEDDLE_BINARY_DIR).rfind(std::string(HEDDLE_SOURCE_DIR) + "/", 0) != 0)
      GTEST_SKIP() << "the build lies outside of the sources";
  }
  static void expect_figures(const Finished& run, const std::string& figures) {
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    if (run.out.find(": skipped") != std::string::npos) GTEST_SKIP() << run.out;
    EXPECT_NE(run.out.find(figures), std::string::npos) << run.out;
  }
};

TEST_F(Scripts, AKillWhileSavingLeavesAWholeCheckpoint) {
  expect_figures(script({"kill_check.sh", "save", "1"}), "1 kills, ");
}

}  // namespace
}  // namespace heddle::distributed
