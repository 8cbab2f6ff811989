// `heddle completion` and `heddle man`: what a shell offers, and a page that is kept up to date.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "heddle/io/atomic_file.h"
#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using test::contains;

std::string script(const std::string& shell) {
  const test::Finished done = test::run_heddle({"completion", shell});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  return done.out;
}

bool has(const std::string& program) {
  return test::run_program({"/bin/sh", "-c", "command -v " + program}).exit_code == 0;
}

class Completion : public testing::Test {
 protected:
  // What bash offers for the last of these words.
  std::set<std::string> offered(const std::string& words) {
    const std::string file = folder / "heddle.bash";
    write_file_atomically(file, script("bash"));
    const test::Finished done = test::run_program(
        {"/bin/bash", "-c",
         "source " + file + "; COMP_WORDS=(" + words +
             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _heddle; printf '%s\\n' \"${COMPREPLY[@]}\""});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    std::set<std::string> result;
    std::istringstream lines(done.out);
    for (std::string line; std::getline(lines, line);) result.insert(line);
    return result;
  }
  test::TemporaryFolder folder;
};

TEST_F(Completion, BashOffersCommandsOptionsAndChoices) {
  EXPECT_EQ(offered("heddle tr"), std::set<std::string>{"train"});
  EXPECT_TRUE(offered("heddle ''").contains("report"));
  EXPECT_EQ(offered("heddle train --optimizer ada"), (std::set<std::string>{"adagrad", "adam", "adamw", "adafactor"}));
  EXPECT_EQ(offered("heddle train mnist-mlp --label-s"), std::set<std::string>{"--label-smoothing"});
  EXPECT_TRUE(offered("heddle cache ''").contains("list"));
  EXPECT_EQ(offered("heddle completion z"), std::set<std::string>{"zsh"});
  EXPECT_EQ(offered("heddle eval --batch no-such"), std::set<std::string>{""});  // the shell falls back to files
}

TEST_F(Completion, ScriptsOfTheOtherShellsAreOnes) {
  int tried = 0;
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string file = folder / shell;
    write_file_atomically(file, script(shell));
    EXPECT_TRUE(contains(test::read_text(file), shell == "fish" ? "-l optimizer" : "--optimizer:"));
    if (!has(shell)) continue;
    ++tried;
    const test::Finished parsed = test::run_program({"/bin/sh", "-c", shell + " -n " + file});
    EXPECT_EQ(parsed.exit_code, 0) << parsed.err;
  }
  if (tried < 2) GTEST_SKIP() << "zsh or fish is not installed: its script was not parsed";
}

TEST_F(Completion, AnUnknownShellIsAnError) {
  const test::Finished done = test::run_heddle({"completion", "csh"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_TRUE(contains(done.err, "unknown shell 'csh'; known: bash, zsh, fish"));
}

TEST(Man, ThePageIsUpToDate) {
  const test::Finished done = test::run_heddle({"man"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(done.out == test::read_text(HEDDLE_SOURCE_DIR "/docs/heddle.1"))
      << "docs/heddle.1 is stale: build/.../bin/heddle man > docs/heddle.1";
  for (const char* part : {".TH HEDDLE 1", "heddle train", "\\-\\-optimizer", "HEDDLE_DEVICE", "Exit codes"})
    EXPECT_TRUE(contains(done.out, part));
}

}  // namespace
}  // namespace heddle
