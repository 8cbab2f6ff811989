// heddle summary: of a model by name, of a file, and of neither.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/io/safetensors.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::expect_user_error;
using test::Finished;
using test::run_heddle;

TEST(Summary, OfAModel) {
  const Finished run = run_heddle({"summary", "resnet18", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json summary = Json::parse(run.out);
  EXPECT_EQ(summary["parameters"], 11689512);
  EXPECT_EQ(summary["flops"], 3628146688);
  const Json batch = Json::parse(run_heddle({"summary", "resnet18", "--batch", "3", "--json"}).out);
  EXPECT_EQ(batch["output_bytes"], 3 * summary["output_bytes"].get<int64_t>());
  const Finished table = run_heddle({"summary", "resnet18", "--input", "3x64x64"});
  EXPECT_NE(table.out.find("layer4.1.bn2"), std::string::npos);
  EXPECT_NE(table.out.find("(1, 512, 2, 2)"), std::string::npos);
}

TEST(Summary, OfARecipe) {
  const Json summary = Json::parse(run_heddle({"summary", "mnist-mlp", "--batch", "7", "--json"}).out);
  EXPECT_EQ(summary["parameters"], 109386);
  EXPECT_EQ(summary["flops"], 2 * 7 * (784 * 128 + 128 * 64 + 64 * 10));
  expect_user_error({"summary", "mnist-mlp", "--input", "3"}, "as large as its data");
}

TEST(Summary, OfAFile) {
  const test::TemporaryFolder folder;
  save_safetensors(folder / "a.safetensors", {{"weight", zeros({3, 5}, DType::f32, &device("reference:0"))}});
  const Finished run = run_heddle({"summary", folder / "a.safetensors", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json summary = Json::parse(run.out);
  EXPECT_EQ(summary["elements"], 15);
  EXPECT_EQ(summary["tensors"][0]["shape"], (Json{3, 5}));
}

TEST(Summary, MistakesAreOneLine) {
  expect_user_error({"summary", "resnet19"}, "did you mean resnet18");
  expect_user_error({"summary", "nowhere.safetensors"}, "nowhere.safetensors");
  expect_user_error({"summary", "resnet18", "--input", "3x64"}, "(1, 3, 224, 224)");
  expect_user_error({"summary", "resnet18", "--batch", "0"}, "--batch");
}

}  // namespace
}  // namespace heddle
