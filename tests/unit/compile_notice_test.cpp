// One line about kernels being compiled, when it takes long.
#include "heddle/core/device/compile_notice.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <thread>

namespace heddle {
namespace {

class CompileNotices : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("HEDDLE_QUIET");
    CompileNotice::reset(0.05);
  }
  void TearDown() override {
    CompileNotice::reset(2);
    ::unsetenv("HEDDLE_QUIET");
  }
  // What is said while five kernels, two of them done at once, take so long.
  static std::string said(int milliseconds) {
    testing::internal::CaptureStderr();
    {
      CompileNotice notice("opencl:7", 5);
      notice.done(2);
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(CompileNotices, OneLineOnceItTakesLong) {
  const std::string text = said(200);
  EXPECT_TRUE(text.starts_with("heddle: opencl:7 compiles kernels for the first time, 2 of 5 so far; ")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(said(200), "");
}

TEST_F(CompileNotices, TimesAddUp) {
  std::string text;
  for (int i = 0; i < 6; ++i) text += said(20);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(CompileNotices, NothingForShortOnesAndWhereQuiet) {
  CompileNotice::reset(30);
  EXPECT_EQ(said(1), "");
  CompileNotice::reset(0.05);
  ::setenv("HEDDLE_QUIET", "1", 1);
  EXPECT_EQ(said(150), "");
}

}  // namespace
}  // namespace heddle
