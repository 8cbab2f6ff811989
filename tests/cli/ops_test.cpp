// heddle ops: the catalogue as JSON, text and markdown, filters and unknown names.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "heddle/autograd/catalogue.h"
#include "tests/cli/subprocess.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::Finished;
using test::run_heddle;

TEST(OpsCommand, JsonListsThePublicFunctions) {
  const Finished run = run_heddle({"ops", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json list = Json::parse(run.out);
  ASSERT_EQ(list.size(), catalogue().size());
  EXPECT_GE(list.size(), 250u);
  std::set<std::string> names;
  for (const Json& f : list) {
    EXPECT_TRUE(names.insert(f["name"]).second);
    for (const char* key : {"family", "meaning", "made", "types"})
      EXPECT_FALSE(f[key].get<std::string>().empty()) << f.dump();
    for (const char* key : {"gradient", "vmap", "jvp"})
      EXPECT_TRUE(f[key] == true || !f[key].get<std::string>().empty()) << f.dump();
    EXPECT_EQ(f["gradient"] == true, !f["differentiable"].empty() && f["gradient"] != "0: constant but for jumps")
        << f.dump();
    EXPECT_FALSE(f["devices"].empty());
  }
}

TEST(OpsCommand, NamesAndFamiliesChoose) {
  const Finished one = run_heddle({"ops", "softmax", "--json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Json softmax = Json::parse(one.out);
  ASSERT_EQ(softmax.size(), 1u);
  EXPECT_EQ(softmax[0]["made"], "fused");
  EXPECT_EQ(softmax[0]["row"], "softmax");
  EXPECT_EQ(softmax[0]["differentiable"], Json{"x"});
  EXPECT_EQ(Json::parse(run_heddle({"ops", "conv*d", "--json"}).out).size(), 6u);
  EXPECT_EQ(Json::parse(run_heddle({"ops", "conv[12]d", "conv?d", "--json"}).out).size(), 3u);
  for (const Json& f : Json::parse(run_heddle({"ops", "--family", "losses", "--json"}).out))
    EXPECT_EQ(f["family"], "Losses");
}

TEST(OpsCommand, UnknownNamesAreMistakesOfTheUser) {
  const Finished name = run_heddle({"ops", "sotfmax"});
  EXPECT_EQ(name.exit_code, 2);
  EXPECT_NE(name.err.find("[ops] no function is called 'sotfmax'; did you mean softmax?"), std::string::npos)
      << name.err;
  const Finished nothing = run_heddle({"ops", "qqqqqq"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_NE(nothing.err.find("`heddle ops` lists all"), std::string::npos) << nothing.err;
  const Finished family = run_heddle({"ops", "--family", "nope"});
  EXPECT_EQ(family.exit_code, 2);
  EXPECT_NE(family.err.find("there are: Arithmetic, "), std::string::npos) << family.err;
  EXPECT_EQ(run_heddle({"ops", "--markdown", "--json"}).exit_code, 2);
}

TEST(OpsCommand, DocsAreFresh) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/docs/ops.md");
  std::stringstream text;
  text << file.rdbuf();
  const Finished run = run_heddle({"ops", "--markdown"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.out == text.str()) << "docs/ops.md is stale: heddle ops --markdown > docs/ops.md";
}

}  // namespace
}  // namespace heddle
