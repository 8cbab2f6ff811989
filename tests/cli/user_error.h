// What every command does with bad input.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {

// Exit code 2, nothing on standard output, one line on standard error that contains `part`.
inline void expect_user_error(const std::vector<std::string>& arguments, const std::string& part) {
  const Finished run = run_heddle(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(contains(run.err, part));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

}  // namespace heddle::test
