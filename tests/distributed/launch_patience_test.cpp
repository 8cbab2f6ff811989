// How long mpirun waits for ranks behind a loss, as `heddle launch` tells it: by a program of that name which says what
// it was told.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "heddle/core/base/system/machine.h"
#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

class LaunchPatience : public testing::Test {
 protected:
  void SetUp() override {
    const std::string program = folder_ / "mpirun";
    std::ofstream(program) << "#!/bin/sh\necho \"${OMPI_MCA_odls_base_sigkill_timeout-as it likes}\"\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  std::string said(const std::vector<std::string>& options, std::map<std::string, std::string> environment = {}) {
    environment["PATH"] = folder_.path() + ":" + os::variable("PATH").value_or("");
    std::vector<std::string> words{"launch", "-n", "2"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "train", "mnist-mlp", "--out", folder_ / "run"});
    const test::Finished run = test::run_heddle(words, {.environment = environment});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }
  test::TemporaryFolder folder_;
};

TEST_F(LaunchPatience, IsNoneWhereTheRunIsStartedAgain) {
  EXPECT_EQ(said({}), "as it likes\n");
  EXPECT_EQ(said({"--restarts", "1"}), "0\n");
  EXPECT_EQ(said({"--restarts", "1"}, {{"OMPI_MCA_odls_base_sigkill_timeout", "7"}}), "7\n");
}

}  // namespace
}  // namespace heddle
