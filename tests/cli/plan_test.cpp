// heddle plan: the report of a step, and how near the prediction comes to what a device measures.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::expect_user_error;
using test::Finished;
using test::run_heddle;

TEST(Plan, ReportOfTheMlp) {
  const Finished run = run_heddle({"plan", "mlp:32", "--device", "null:0", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json plan = Json::parse(run.out);
  EXPECT_EQ(plan["parameters"], 109386 * 4);
  EXPECT_EQ(plan["optimizer_state"], 2 * 109386 * 4);
  EXPECT_EQ(plan["inputs"], 32 * 784 * 4 + 32 * 4);
  EXPECT_EQ(plan["lower_bound"],
            plan["activations"].get<int64_t>() + plan["gradients"].get<int64_t>() + plan["workspace"].get<int64_t>());
  EXPECT_LE(plan["arena"].get<double>(), 1.15 * plan["lower_bound"].get<double>());
  EXPECT_LE(plan["arena"].get<double>(), 0.6 * plan["all_values"].get<double>());
  EXPECT_EQ(plan["outputs"], 4);
}

TEST(Plan, MeasuredPeakIsWithinTenPercent) {
  for (const std::string& device : test::kernel_devices()) {
    for (const char* step : {"mlp:32", "cnn:8"}) {
      const Finished run = run_heddle({"plan", step, "--device", device, "--measure", "--json"});
      ASSERT_EQ(run.exit_code, 0) << run.err;
      const Json plan = Json::parse(run.out);
      EXPECT_NEAR(plan["measured_peak"].get<double>() / plan["peak"].get<double>(), 1, 0.1) << step << " on " << device;
    }
  }
}

TEST(Plan, ABudgetIsKeptOnTheDeviceToo) {
  const auto plan = [](const std::string& device, std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "cnn:32", "--device", device, "--json"});
    const Finished run = run_heddle(more);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return Json::parse(run.out);
  };
  std::vector<std::string> devices = test::kernel_devices();
  devices.push_back("null:0");
  for (const std::string& device : devices) {
    const Json free = plan(device, {});
    const double peak = free["peak"], arena = free["arena"];
    const int64_t budget = static_cast<int64_t>(peak - 0.1 * arena);
    const Json fitted = device == "null:0" ? plan(device, {"--memory-budget", std::to_string(budget)})
                                           : plan(device, {"--measure", "--memory-budget", std::to_string(budget)});
    EXPECT_LE(fitted["peak"], budget) << device;
    EXPECT_GT(fitted["kernels"], free["kernels"]) << device;
    if (device == "null:0") continue;
    EXPECT_NEAR(fitted["measured_peak"].get<double>() / fitted["peak"].get<double>(), 1, 0.1) << device;
    EXPECT_GT(fitted["step_seconds"], 0) << device;
  }
}

TEST(Plan, BadInputIsOneLine) {
  expect_user_error({"plan", "mlp:32", "--device", "null:0", "--memory-budget", "1MiB"},
                    "this step needs at least 2 MiB");
  expect_user_error({"plan", "mlp:32", "--device", "null:0", "--memory-budget", "much"}, "--memory-budget");
  expect_user_error({"plan", "vgg:32"}, "unknown training step");
  expect_user_error({"plan", "gpt:4x128", "--device", "null:0"}, "is not of the form");
  expect_user_error({"plan", "gpt:4x128x2x100", "--device", "null:0"}, "not a multiple of 32");
  expect_user_error({"plan", "mlp:32", "--device", "reference:0"}, "takes no kernels");
}

}  // namespace
}  // namespace heddle
