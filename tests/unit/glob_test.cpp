// Patterns of names, against fnmatch(3) where the system has it.
#include "heddle/core/base/glob.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#ifndef _WIN32
#include <fnmatch.h>
#endif

namespace heddle {
namespace {

TEST(Glob, NamesOfParameters) {
  EXPECT_TRUE(fits_pattern("layer1.0.conv1.weight", "layer1.*"));
  EXPECT_TRUE(fits_pattern("layer1.0.conv1.weight", "*.conv?.weight"));
  EXPECT_TRUE(fits_pattern("layer3.bn", "layer[1-3].*"));
  EXPECT_FALSE(fits_pattern("layer4.bn", "layer[1-3].*"));
  EXPECT_TRUE(fits_pattern("layer4.bn", "layer[!1-3].*"));
  EXPECT_TRUE(fits_pattern("a*b", "a\\*b"));
  EXPECT_FALSE(fits_pattern("axb", "a\\*b"));
  EXPECT_TRUE(fits_pattern("", "*"));
  EXPECT_TRUE(fits_pattern("", ""));
  EXPECT_FALSE(fits_pattern("a", ""));
  EXPECT_FALSE(fits_pattern("", "?"));
  EXPECT_TRUE(fits_pattern("[a", "[a"));
}

// Forty stars over a name that almost fits: a search by recursion would not end.
TEST(Glob, StarsAreCheap) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(fits_pattern(std::string(2000, 'a') + "b", pattern));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

#ifndef _WIN32
TEST(Glob, AsFnmatch) {
  std::mt19937 random(1);
  const auto text = [&](const std::string& letters, size_t most) {
    std::string made(random() % (most + 1), ' ');
    for (char& c : made) c = letters[random() % letters.size()];
    return made;
  };
  size_t fitting = 0;
  for (int i = 0; i < 200000; ++i) {
    const std::string pattern = text("ab*?[]!-\\", 7), name = text("ab-]!\\", 6);
    const bool expected = ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    ASSERT_EQ(fits_pattern(name, pattern), expected) << name << " by " << pattern;
    fitting += expected ? 1 : 0;
  }
  EXPECT_GT(fitting, 5000u);
}
#endif

}  // namespace
}  // namespace heddle
