// train/toml.h: limits of size and depth. What keys mean: config_test.cpp.
#include "heddle/train/toml.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using test::contains;

std::string refusal(const std::string& text) {
  return test::thrown_text<ValueError>([&] { read_toml(text, "c.toml"); });
}
std::string dotted(int keys) {
  std::string all = "a";
  for (int i = 1; i < keys; ++i) all += ".a";
  return all;
}

// toml++ frees tables by recursion: a key of 100,000 parts ended the process.
TEST(Toml, DeepTextIsRefused) {
  const std::string deep = "[config] c.toml:2: keys or lists are more than 100 deep";
  EXPECT_TRUE(contains(refusal("\n" + dotted(100'000) + " = 1\n"), deep));
  EXPECT_TRUE(contains(refusal("\n[" + dotted(100'000) + "]\n"), deep));
  EXPECT_TRUE(contains(refusal("\nx = " + std::string(200'000, '[')), deep));
  EXPECT_TRUE(contains(refusal("\nx = {y = \"\"\"quotes\"\"\"\"\", " + dotted(110) + " = 1}"), deep))
      << "a string that ends in two quotes";
  EXPECT_TRUE(contains(refusal("\nx = {" + dotted(60) + " = {" + dotted(60) + " = 1}}"), deep));
  EXPECT_TRUE(contains(refusal("\nx = {\"a,=]}\"." + dotted(110) + " = 1}"), deep))
      << "what stands in quotes is no mark";
  EXPECT_TRUE(contains(refusal(std::string(2 << 20, '\n')), "at most 1048576 are read"));
}

// toml++ asserts that a key begins here, which would end a debug build, and calls letters unreachable.
TEST(Toml, WhatTheParserTakesForGrantedIsRefused) {
  for (const char* text : {"[(optimizer]\nlr = 1", "[[(a]]", "a = {(b = 1}", "a = \u0342", "a = {b \u00e9= 1}"})
    EXPECT_THROW(read_toml(text, "c.toml"), ValueError) << text;
}

TEST(Toml, DotsElsewhereAreNoDepth) {
  std::string list;
  for (int i = 0; i < 300; ++i) list += "\"../a.b.c\", ";
  EXPECT_EQ(
      read_toml("x = [" + list + "]  # " + dotted(200) + "\ny = \"\"\"\n" + dotted(200) + "\"\"\"\n[t]\nz = 1.5\n",
                "c.toml")
          .size(),
      3u);
  std::string keys;
  for (int i = 0; i < 300; ++i) keys += "k" + std::to_string(i) + ".x = 1.5\n";
  EXPECT_EQ(read_toml(keys, "c.toml").size(), 300u);
}

}  // namespace
}  // namespace heddle::train
