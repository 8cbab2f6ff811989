// Texts of user kernels: limits of size and depth, since compilers of drivers recurse over them, and what is read from
// compilers' messages.
#include "heddle/core/dialect/user_text.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using test::contains;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string refusal(const std::string& text) {
  return test::thrown_text<ValueError>([&] { UserText("f", text, {"x"}, {"y"}); });
}

TEST(UserText, DeepTextIsRefused) {
  EXPECT_TRUE(contains(refusal(repeated("(", 20'000) + "x" + repeated(")", 20'000)),
                       "[f] line 1 of its text: more than 100 brackets within brackets"));
  EXPECT_TRUE(contains(refusal(repeated("-", 60'000) + "x"), "more than 100 signs in a row"));
  EXPECT_TRUE(contains(refusal(repeated("- ", 30'000) + "x"), "more than 100 signs in a row"));
  EXPECT_TRUE(contains(refusal(repeated("x ? x : ", 5'000) + "x"), "more than 100 '?' in one statement"));
  EXPECT_TRUE(contains(refusal(repeated("if (x > 0) y = x; else ", 2'000) + "y = 1;"), "more than 100 times 'else'"));
  EXPECT_TRUE(contains(refusal(std::string(200'000, ' ')), "[f] its text has 200000 bytes; at most 65536 are read"));
  EXPECT_NO_THROW(UserText("f", repeated("(", 100) + repeated("-", 100) + "x" + repeated(")", 100), {"x"}, {"y"}));
  EXPECT_NO_THROW(UserText("f", repeated("y = x > 0 ? -x : x;", 1'000), {"x"}, {"y"}));
}

TEST(UserText, ANumberTooLongForALineIsNone) {
  EXPECT_EQ(UserText::line_in("f:12:3: error", "f"), 12);
  EXPECT_EQ(UserText::line_in("f:" + std::string(200'000, '9') + ": error", "f"), 0);
  EXPECT_EQ(UserText::line_in("f:99999999999: f(7) : error", "f"), 7);
}

}  // namespace
}  // namespace heddle
