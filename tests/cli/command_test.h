// A test fixture for commands: a folder with files, and what a command prints as JSON.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {

class CommandTest : public testing::Test {
 protected:
  // Makes a file of that content; gives its path.
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  // Of a command that succeeds and prints one JSON value.
  nlohmann::json json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Finished run = run_heddle(std::move(arguments));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return nlohmann::json::parse(run.out, nullptr, false);
  }
  TemporaryFolder folder;
};

}  // namespace heddle::test
