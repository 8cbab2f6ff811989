// heddle import and heddle run: a model of another maker as a report, as one file, and on arrays.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "heddle/data/numpy.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/onnx/wire.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using namespace tests;  // NOLINT: the writers of ONNX's messages
using test::contains;
using test::Finished;

class Import : public test::CommandTest {
 protected:
  static constexpr int64_t n = 40;
  void SetUp() override {
    if (contains(test::run_heddle({"import", "none.onnx"}).err, "reads no ONNX"))
      GTEST_SKIP() << "built without protobuf";
    std::vector<float> weights(n), values(n);
    for (size_t i = 0; i < n; ++i) weights[i] = static_cast<float>(i) * 0.5f, values[i] = static_cast<float>(i) - 7;
    const Wire x = port("x", f32, {-1, n}), y = port("out/y", f32, {-1, n});
    net = write("net.onnx", model(graph({node("Mul", {"x", "w"}, {"m"}), node("Relu", {"m"}, {"out/y"})}, {x}, {y},
                                        {tensor("w", f32, {n}, weights)})));
    mystery = write("mystery.onnx", model(graph({node("Mystery", {"x"}, {"out/y"}, {}, "who")}, {x}, {y})));
    data::write_npy(folder / "x.npy", data::Array::of<float>(values, {1, n}));
  }
  nlohmann::json ran(const std::string& file, const std::string& output) {
    return json(
        {"run", file, "--input", "x=" + (folder / "x.npy"), "--output", folder / output, "--device", "reference:0"});
  }
  std::string net, mystery;
};

TEST_F(Import, ReportsWhatAModelTakesAndGives) {
  const auto report = json({"import", net, "--shape", "x=4,40"});
  EXPECT_EQ(report["inputs"][0]["shape"], (nlohmann::json{4, 40}));
  EXPECT_EQ(report["outputs"][0]["shape"], (nlohmann::json{"N1", 40}));
  EXPECT_EQ(report["nodes"], 2);
  EXPECT_TRUE(report["unsupported"].empty());
}

TEST_F(Import, WritesOneFileThatRunsAlike) {
  const std::string package = folder / "net.heddle";
  json({"import", net, "-o", package, "--shape", "x=1,40"});
  EXPECT_EQ(json({"import", package})["inputs"][0]["shape"], (nlohmann::json{1, 40}));
  const auto line = ran(net, "one");
  for (const char* key : {"event", "device", "median_ms", "kernels", "peak_device_bytes", "compiled_kernels"})
    EXPECT_TRUE(line.contains(key)) << key;
  fs::remove(net);
  EXPECT_EQ(ran(package, "two")["device"], "reference:0");
  const data::Array one = data::read_npy(folder / "one/out_y.npy"), two = data::read_npy(folder / "two/out_y.npy");
  ASSERT_EQ(one.shape, (Shape{1, n}));
  EXPECT_EQ(two.bytes, one.bytes);
  for (size_t i = 0; i < n; ++i) {
    float y = 0;
    std::memcpy(&y, one.bytes.data() + i * sizeof y, sizeof y);
    EXPECT_EQ(y, std::max(0.0f, (static_cast<float>(i) - 7) * (static_cast<float>(i) * 0.5f))) << i;
  }
}

// Files of several sizes, parts of one file, and what a call hands to the next one.
TEST_F(Import, CallsFollowEachOther) {
  const auto lines = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", net});
    arguments.insert(arguments.end(), {"--output", folder / "calls", "--device", "reference:0", "--json"});
    const Finished done = test::run_heddle(arguments);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return std::count(done.out.begin(), done.out.end(), '\n');
  };
  const auto first = [&](const std::string& file, size_t at) {
    float y = 0;
    std::memcpy(&y, data::read_npy(folder / file).bytes.data() + at * sizeof y, sizeof y);
    return y;
  };
  data::write_npy(folder / "two.npy", data::Array::of<float>(std::vector<float>(2 * n, 3), {2, n}));
  EXPECT_EQ(lines({"--input", "x=" + (folder / "x.npy"), "--input", "x=" + (folder / "two.npy")}), 2);
  EXPECT_EQ(data::read_npy(folder / "calls/1/out_y.npy").shape, (Shape{2, n}));
  EXPECT_EQ(first("calls/1/out_y.npy", n + 5), 3 * 2.5f);

  std::vector<float> three(3 * n);
  for (size_t i = 0; i < three.size(); ++i) three[i] = static_cast<float>(i / n + 1);
  data::write_npy(folder / "three.npy", data::Array::of<float>(three, {3, 1, n}));
  EXPECT_EQ(lines({"--input", "x=" + (folder / "three.npy"), "--each", "x"}), 3);
  EXPECT_EQ(first("calls/2/out_y.npy", 4), 3 * 2.0f);

  const Wire a = port("a", f32, {1}), s = port("s", f32, {1}), t = port("t", f32, {1});
  const std::string sums = write("sums.onnx", model(graph({node("Add", {"a", "s"}, {"t"})}, {a, s}, {t})));
  data::write_npy(folder / "a.npy", data::Array::of<float>({1, 10, 100}, {3, 1}));
  data::write_npy(folder / "s.npy", data::Array::of<float>({5}, {1}));
  const std::vector<std::string> summing{
      "run",    sums, "--input",  "a=" + (folder / "a.npy"), "--input",  "s=" + (folder / "s.npy"),
      "--each", "a",  "--output", folder / "calls",          "--device", "reference:0"};
  std::vector<std::string> arguments = summing;
  arguments.insert(arguments.end(), {"--carry", "t=s"});
  EXPECT_EQ(test::run_heddle(arguments).exit_code, 0);
  EXPECT_EQ(first("calls/2/t.npy", 0), 116);
  arguments.back() = "t=none";
  test::expect_user_error(arguments, "the model has no input none");
  arguments.back() = "t=a";
  test::expect_user_error(arguments, "values of its own");
  arguments = summing;
  arguments.insert(arguments.end(), {"--input", "s=" + (folder / "s.npy")});
  test::expect_user_error(arguments, "2 values, another one 3");
}

TEST_F(Import, NothingIsWrittenOfWhatCannotRun) {
  const Finished run = test::run_heddle({"import", mystery, "-o", folder / "m.heddle", "--json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(nlohmann::json::parse(run.out)["unsupported"][0]["nodes"], nlohmann::json{"who"});
  EXPECT_FALSE(fs::exists(folder / "m.heddle"));
  test::expect_user_error({"run", mystery, "--input", "x=" + (folder / "x.npy"), "--output", folder / "o"}, "Mystery");
}

TEST_F(Import, BadInputIsOneLine) {
  const std::string package = folder / "net.heddle";
  test::expect_user_error({"import", net, "-o", folder / "net.onnx2"}, "is written as a .heddle file");
  json({"import", net, "-o", package});
  test::expect_user_error({"import", package, "-o", folder / "again.heddle"}, "is a .heddle file already");
  test::expect_user_error({"import", net, "--shape", "x=1,2,3"}, "does not fit");
  test::expect_user_error({"import", folder / "none.onnx"}, "none.onnx");
  test::expect_user_error({"run", folder / "x.npy", "--output", folder / "o"}, "neither a .onnx nor a .heddle file");
  test::expect_user_error({"run", package, "--output", folder / "o"}, "input x is missing");
  test::expect_user_error({"run", net, "--verify", "--device", "reference:0"}, "golden vectors");
  test::expect_user_error({"run", package, "--device", "reference:0"}, "--output");
  fs::resize_file(package, fs::file_size(package) - 8);
  test::expect_user_error({"run", package, "--output", folder / "o"}, "net.heddle");
}

}  // namespace
}  // namespace heddle
