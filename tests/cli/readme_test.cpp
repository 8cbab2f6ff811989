// The program in README.md is examples/mnist_mlp.cpp, line by line, and it is short.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
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

// Those of tools/cli.h, signals included, each in its row.
TEST(Readme, NamesEveryExitCode) {
  const std::string readme = text_of("README.md"), header = text_of("tools/cli.h");
  std::set<std::string> codes{"0", "130", "134"};
  const std::regex constant(R"(constexpr int exit_\w+ = (\d+);)");
  for (std::sregex_iterator at(header.begin(), header.end(), constant), end; at != end; ++at) codes.insert((*at)[1]);
  EXPECT_EQ(codes.erase("128"), 1u);  // and a signal's number: 130, 143
  EXPECT_EQ(codes.size(), 8u);
  for (const std::string& code : codes) EXPECT_NE(readme.find("\n| " + code + " | "), std::string::npos) << code;
  EXPECT_NE(readme.find("143 by SIGTERM"), std::string::npos);
}

}  // namespace
}  // namespace heddle
