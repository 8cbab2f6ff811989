// The program in README.md is examples/mnist_mlp.cpp, line by line, and it is short.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace heddle {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Readme, ProgramIsTheExample) {
  const std::string readme = text_of("README.md"), example = text_of("examples/mnist_mlp.cpp");
  ASSERT_FALSE(example.empty());
  EXPECT_NE(readme.find("```cpp\n" + example + "```"), std::string::npos)
      << "README.md and examples/mnist_mlp.cpp differ";
  EXPECT_LE(std::count(example.begin(), example.end(), '\n'), 32);
}

TEST(Readme, NamesTheTwoCommands) {
  const std::string readme = text_of("README.md");
  EXPECT_NE(readme.find("tools/quickstart.sh"), std::string::npos);
  EXPECT_NE(readme.find("tools/test.sh"), std::string::npos);
}

}  // namespace
}  // namespace heddle
