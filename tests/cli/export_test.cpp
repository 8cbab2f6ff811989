// heddle export: a run as a .onnx file that `heddle run` takes, and one line where that cannot be.
#include <filesystem>

#include "heddle/data/numpy.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using test::contains;

class Export : public test::CommandTest {
 protected:
  void SetUp() override {
    if (contains(test::run_heddle({"export", "mlp", "-o", "none.onnx", "--opset", "1"}).err, "writes no ONNX"))
      GTEST_SKIP() << "built without protobuf";
  }
  nlohmann::json exported(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "export");
    arguments.insert(arguments.end(), {"-o", folder / "net.onnx", "--device", "reference:0"});
    return json(arguments);
  }
  // The example's values come back from the file.
  void expect_example() {
    json({"run", folder / "net.onnx", "--input", "x=" + (folder / "example/x.npy"), "--output", folder / "again",
          "--device", "reference:0"});
    const data::Array wanted = data::read_npy(folder / "example/y.npy"), found = data::read_npy(folder / "again/y.npy");
    EXPECT_EQ(found.shape, wanted.shape);
    EXPECT_EQ(found.bytes, wanted.bytes);
  }
};

TEST_F(Export, ARunWithItsWeights) {
  const std::string run = folder / "run";
  json({"train", "mnist-mlp", "--steps", "1", "--limit-train", "64", "--limit-test", "16", "--out", run, "--device",
        "reference:0"});
  const auto line = exported({run, "--opset", "20", "--example", folder / "example"});
  EXPECT_EQ(line["event"], "exported");
  EXPECT_EQ(line["opset"], 20);
  EXPECT_EQ(line["inputs"][0]["shape"], (nlohmann::json{"N", 1, 28, 28}));
  EXPECT_EQ(line["outputs"][0]["shape"], (nlohmann::json{"N", 10}));
  EXPECT_EQ(line["parameters"], 109386);
  expect_example();
}

TEST_F(Export, AKnownModel) {
  const auto line =
      exported({"autoencoder", "--shape", "batch,784", "--plain", "--external-data", "--example", folder / "example"});
  EXPECT_EQ(line["inputs"][0]["shape"][0], "batch");
  EXPECT_EQ(line["functions"], 0);
  EXPECT_TRUE(fs::exists(folder / "net.onnx.data"));
  expect_example();
}

TEST_F(Export, BadInputIsOneLine) {
  const std::string file = folder / "net.onnx";
  test::expect_user_error({"export", "mlp", "-o", folder / "net.pt"}, "is written as a .onnx file");
  test::expect_user_error({"export", "mlp", "-o", file, "--opset", "99"}, "17 to 21");
  test::expect_user_error({"export", "mpl", "-o", file}, "mlp");
  test::expect_user_error({"export", "mlp", "-o", file, "--shape", "N,3,28"}, "does not fit");
  test::expect_user_error({"export", "mlp", "-o", file, "--shape", "N,?"}, "does not fit");
  test::expect_user_error({"export", "mlp", "-o", folder / "none/net.onnx"}, "none");
  test::expect_user_error({"export", folder / "", "-o", file}, "without model.safetensors");
  EXPECT_FALSE(fs::exists(file));
}

}  // namespace
}  // namespace heddle
