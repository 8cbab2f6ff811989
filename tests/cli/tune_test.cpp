// heddle tune as a user meets it: bad candidates are rejected, files are kept, merged and shown, and a broken one is
// one clear line.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/device/context.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::available;
using test::contains;
using test::expect_user_error;
using test::Finished;
using test::read_text;
using test::run_heddle;

class TuneOn : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << GetParam() << " is absent";
  }
  std::string path() const { return folder_.path() + "/tuning.json"; }
  Finished tune(std::vector<std::string> more, const std::string& fault = "") const {
    std::vector<std::string> arguments = {"tune",     "matmul", "--cases", "40x48x32", "--device",
                                          GetParam(), "--json", "-o",      path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_heddle(arguments, {.environment = {{"HEDDLE_TUNE_FAULT", fault}, {"HEDDLE_TUNING", path()}}});
  }
  test::TemporaryFolder folder_;
};

TEST_P(TuneOn, StoresWhatItFoundAndTheLibraryTakesIt) {
  const Finished run = tune({"--budget", "4"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json found = Json::parse(run.out_lines().back());  // a winner that did not win at the end is reported again
  EXPECT_EQ(found["key"]["body"], "matmul");
  EXPECT_EQ(found["key"]["sizes"], (Json{1, 40, 48, 32}));
  EXPECT_GT(found["tried"].get<int>(), 0);
  EXPECT_EQ(found["wrong"], 0) << run.out;
  const Json file = Json::parse(read_text(path()));
  ASSERT_EQ(file["devices"].size(), 1u);
  ASSERT_EQ(file["devices"][0]["entries"].size(), 1u);
  EXPECT_EQ(file["devices"][0]["entries"][0]["tunables"], found["tunables"]);
  // The tuned program gives right results.
  const Finished bench = run_heddle({"bench", "matmul", "--cases", "40x48x32", "--device", GetParam(), "--repetitions",
                                     "10", "--compare-tuning", "--json"},
                                    {.environment = {{"HEDDLE_TUNING", path()}}});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_TRUE(contains(bench.out, "tuned_over_default"));
}

TEST_P(TuneOn, WrongAndFailingAndCrashingCandidatesAreRejected) {
  const Finished run = tune(
      {"--budget", "5"},
      "SCHEDULE=0:wrong,SCHEDULE=1:compile,SCHEDULE=3:crash,SCHEDULE=4:launch,ORDER=1:wrong,NV=1:compile,NV=2:compile");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json found = Json::parse(run.out_lines().front());
  EXPECT_GT(found["wrong"].get<int>() + found["failed"].get<int>(), 0) << run.out;
  const Json values = found["tunables"];
  EXPECT_TRUE(values.empty() || (values.value("SCHEDULE", 2) == 2 && values.value("ORDER", 0) == 0)) << run.out;
}

TEST_P(TuneOn, AHangCostsOneCandidate) {
  const Finished run = tune({"--budget", "4", "--time-limit", "0.7"}, "SCHEDULE=0:hang,SCHEDULE=1:hang,ORDER=1:hang");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json found = Json::parse(run.out_lines().front());
  EXPECT_GT(found["hung"].get<int>(), 0) << run.out;
  EXPECT_TRUE(std::filesystem::exists(path()));
}

INSTANTIATE_TEST_SUITE_P(Devices, TuneOn, testing::Values("opencl:0", "vulkan:0"));

TEST(Tune, BadInputIsOneLine) {
  expect_user_error({"tune", "juggling"}, "'juggling' is neither a family (matmul");
  expect_user_error({"tune", "--cases", "8x8x8", "-o", "/tmp/x.json"}, "--cases needs a family");
  expect_user_error({"tune", "matmul", "--budget", "0", "--dry-run"}, "--budget");
  expect_user_error({"tune", "matmul", "--cases", "8x8", "--dry-run"}, "MxNxK");
  expect_user_error({"tune", "matmul", "--suite", "juggling", "--dry-run"}, "unknown suite 'juggling'");
  expect_user_error({"tune", "matmul", "--cases", "8x8x8", "--device", "reference:0", "--dry-run"}, "runs no kernels");
  expect_user_error({"tune", "matmul", "--cases", "8x8x8", "--device", "reference:0", "-o", "/proc/nowhere/x.json"},
                    "runs no kernels");
  const Finished nowhere = run_heddle({"tune", "matmul"}, {.environment = {{"HEDDLE_TUNING", ""}}});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_TRUE(contains(nowhere.err, "--output FILE"));
}

TEST(Tune, ACorruptFileIsNotOverwritten) {
  if (!available("opencl:0")) GTEST_SKIP() << "opencl:0 is absent";
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/tuning.json", text = "{\"heddle_tuning\": 1, \"devices\": [";
  std::ofstream(path) << text;
  expect_user_error({"tune", "matmul", "--cases", "8x8x8", "--device", "opencl:0", "-o", path}, path);
  EXPECT_EQ(read_text(path), text);
  expect_user_error({"tune", "matmul", "--cases", "8x8x8", "--device", "opencl:0", "-o", "/proc/nowhere/x.json"},
                    "/proc/nowhere");
  // A program goes on with the defaults, after one line.
  const Finished run =
      run_heddle({"bench", "matmul", "--cases", "8x8x8", "--device", "opencl:0", "--repetitions", "10"},
                 {.environment = {{"HEDDLE_TUNING", path}}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "defaults are used"));
}

// A disk without room: one line, exit code 2, and the file that was there stays.
TEST(Tune, AFullDiskIsOneLine) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/tuning.json", text = R"({"heddle_tuning": 1, "devices": []})";
  std::ofstream(path) << text;
  const Finished run =
      test::run_program({"/bin/bash", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" tune merge \"$1\" -o \"$1\"",
                         std::string(HEDDLE_BINARY_DIR) + "/bin/heddle", path});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(contains(run.err, path)) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_EQ(read_text(path), text);
}

TEST(Tune, MergeAndShow) {
  const test::TemporaryFolder folder;
  const auto file = [&](const std::string& name, const std::string& hash, int mr) {
    const std::string path = folder.path() + "/" + name;
    std::ofstream(path)
        << R"({"heddle_tuning": 1, "devices": [{"name": "A", "driver": "B", "driver_hash": ")" << hash
        << R"(", "target": "opencl", "class": "cpu", "entries": [{"body": "matmul", "variant": "nn f32 f32", "sizes": [1, 8, 8, 8], "tunables": {"MR": )"
        << mr << R"(}, "seconds": 1, "default_seconds": 2}]}]})";
    return path;
  };
  const std::string a = file("a.json", "0x1", 1), b = file("b.json", "0x2", 2), c = file("c.json", "0x1", 3),
                    out = folder.path() + "/out.json";
  const Finished merged = run_heddle({"tune", "merge", a, b, c, "-o", out});
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  const Finished shown = run_heddle({"tune", "show", out});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_TRUE(contains(shown.out, "MR=3"));
  EXPECT_TRUE(contains(shown.out, "MR=2"));
  EXPECT_FALSE(shown.out.find("MR=1") != std::string::npos);
  EXPECT_TRUE(contains(shown.out, "2.00x"));
  EXPECT_EQ(Json::parse(run_heddle({"tune", "show", out, "--json"}).out)["devices"].size(), 2u);
  expect_user_error({"tune", "show", folder.path() + "/none.json"}, "no such file");
  expect_user_error({"tune", "merge", a, folder.path() + "/none.json", "-o", out}, "no such file");
  std::ofstream(folder.path() + "/bad.json") << "[1, 2";
  expect_user_error({"tune", "merge", a, folder.path() + "/bad.json", "-o", out}, "bad.json");
}

}  // namespace
}  // namespace heddle
