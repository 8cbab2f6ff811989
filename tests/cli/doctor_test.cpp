// heddle doctor: a device that is right, and one that is wrong in each of the ways in which drivers are.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/device/registry.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {
namespace {

using Json = nlohmann::json;

class Doctor : public testing::TestWithParam<std::string> {
 protected:
  Json examine(std::vector<std::string> arguments, int exit_code, RunOptions options = {}) {
    options.environment["HEDDLE_CACHE_DIR"] = folder / "cache";
    arguments.insert(arguments.begin(), {"doctor", "--json", "--report", folder / "report.json"});
    const Finished run = run_heddle(arguments, options);
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    const Json printed = Json::parse(run.out, nullptr, false), stored = Json::parse(report(), nullptr, false);
    EXPECT_EQ(printed, stored);
    return printed;
  }
  // wrong:0, over this device.
  Json examine_wrong(const std::string& how, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"--device", "wrong:0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return examine(arguments, 1,
                   {.environment = {{"HEDDLE_BACKEND_PATH", HEDDLE_WRONG_BACKEND},
                                    {"HEDDLE_WRONG_DEVICE", GetParam()},
                                    {"HEDDLE_WRONG_HOW", how}}});
  }
  std::string report() const {
    std::ifstream file(folder / "report.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static Json part(const Json& diagnosis, const std::string& name) {
    for (const Json& p : diagnosis["parts"]) {
      if (p["part"] == name) return p;
    }
    return {};
  }
  const TemporaryFolder folder;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Doctor);  // a machine without any driver

TEST_P(Doctor, ADeviceThatIsRight) {
  const Json found = examine({"--device", GetParam(), "--only", "memory,training,tanh,sum,take,gather", "--seconds",
                              "0", "--limit", "200"},  // on a machine that is busy, too
                             0);
  EXPECT_TRUE(found["healthy"]);
  EXPECT_EQ(found["findings"], Json::array()) << found["findings"];
  EXPECT_EQ(found["environment"]["device"]["id"], GetParam());
  for (const char* name : {"memory", "training", "functions"}) {
    EXPECT_GT(part(found, name)["passed"], 2) << name;
    EXPECT_EQ(part(found, name)["left"], 0) << name;
  }
}

TEST_P(Doctor, AnotherFunctionIsNamedWithTheFirstWrongElement) {
  const Json found = examine_wrong("sine", {"--only", "tanh,exp"});
  EXPECT_FALSE(found["healthy"]);
  ASSERT_FALSE(found["findings"].empty());
  for (const Json& finding : found["findings"]) {
    EXPECT_EQ(finding["status"], "wrong");
    EXPECT_TRUE(contains(finding["check"], "tanh")) << finding;
    EXPECT_TRUE(contains(finding["what"], "expected")) << finding;
  }
  EXPECT_GT(part(found, "functions")["passed"], 2);  // exp is right
}

TEST_P(Doctor, ADriverThatDiesIsAFinding) {
  const Json found = examine_wrong("abort", {"--only", "tanh"});
  ASSERT_FALSE(found["findings"].empty());
  EXPECT_EQ(found["findings"][0]["status"], "crashed");
  EXPECT_EQ(found["findings"][0]["what"], "signal 6");
}

TEST_P(Doctor, ADriverThatHangsIsAFinding) {
  const Json found = examine_wrong("hang", {"--only", "tanh", "--limit", "2", "--seconds", "1"});
  ASSERT_FALSE(found["findings"].empty());
  EXPECT_EQ(found["findings"][0]["status"], "hung");
  EXPECT_GT(part(found, "functions")["left"], 0);
}

TEST_P(Doctor, ARefusedKernelIsAFinding) {
  const Json found = examine_wrong("refuse", {"--only", "tanh,exp"});
  ASSERT_FALSE(found["findings"].empty());
  EXPECT_EQ(found["findings"][0]["status"], "failed");
  EXPECT_TRUE(contains(found["findings"][0]["what"], "no hyperbolic functions today"));
  EXPECT_GT(part(found, "functions")["passed"], 2);
}

// Nothing is trained on it, and no run folder is begun; asked for, it trains all the same.
TEST_P(Doctor, TrainingIsRefusedOnAWrongDevice) {
  RunOptions options{.environment = {{"HEDDLE_BACKEND_PATH", HEDDLE_WRONG_BACKEND},
                                     {"HEDDLE_WRONG_DEVICE", GetParam()},
                                     {"HEDDLE_WRONG_HOW", "sine"},
                                     {"HEDDLE_CACHE_DIR", folder / "cache"},
                                     {"HEDDLE_QUIET", "1"},  // a busy machine's line on compiling is no error's
                                     {"HEDDLE_SELF_TEST", "1"}}};
  const std::vector<std::string> command{"train",    "mnist-mlp", "--limit-steps", "2",
                                         "--device", "wrong:0",   "--out",         folder / "run"};
  const Finished refused = run_heddle(command, options);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "[self-test] wrong:0 (a wrong device, wrong 1.0) is wrong: tanh")) << refused.err;
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  options.environment["HEDDLE_SELF_TEST"] = "0";
  EXPECT_EQ(run_heddle(command, options).exit_code, 0);
}

// What passed is not tested again: the second run compiles nothing for it.
TEST_P(Doctor, ARightDeviceIsTestedOnce) {
  const RunOptions options{.environment = {{"HEDDLE_CACHE_DIR", folder / "cache"}, {"HEDDLE_SELF_TEST", "1"}}};
  const auto train = [&](const char* out) {
    return run_heddle({"train", "mnist-mlp", "--limit-steps", "2", "--device", GetParam(), "--out", folder / out},
                      options);
  };
  const auto listed = [&] { return run_heddle({"cache", "list", "--json"}, options).out; };
  EXPECT_FALSE(contains(listed(), "passed the self-test"));
  const Finished first = train("first");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_TRUE(contains(listed(), GetParam() + " passed the self-test")) << listed();
  EXPECT_EQ(train("second").exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Doctor, testing::ValuesIn(kernel_devices()), tests::backend_test_name);

TEST(DoctorErrors, BadInput) {
  expect_user_error({"doctor", "--device", "abacus:0", "--report", "none"}, "abacus:0");
  expect_user_error({"doctor", "--device", "null:0", "--report", "none"}, "computes nothing");
  expect_user_error({"doctor", "--device", "reference:0", "--only", "tahn", "--report", "none"},
                    "no checks of 'tahn'; did you mean tan, tanh?");
  expect_user_error({"doctor", "--device", "reference:0", "--report", "/dev/null/a.json"}, "/dev/null");
  expect_user_error({"doctor", "--seconds", "-1"}, "--seconds");
  expect_user_error({"doctor", "--limit", "0"}, "--limit");
}

// The text for people: one line a part, a verdict, no file where none is wanted.
TEST(DoctorText, SaysWhatWasChecked) {
  const Finished run = run_heddle({"doctor", "--device", "reference:0", "--only", "tanh", "--report", "none"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "  functions  "));
  EXPECT_TRUE(contains(run.out, "reference:0 computes what it should, as far as was checked\n")) << run.out;
}

}  // namespace
}  // namespace heddle::test
