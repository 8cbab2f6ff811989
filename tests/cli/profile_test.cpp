// heddle profile, its trace file, the commands that verbose lines end with, and what heddle dump draws.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::expect_user_error;
using test::Finished;
using test::read_text;
using test::run_heddle;
using test::run_program;

// Events of each track are sorted and nested or apart; returns the names that were met.
std::map<std::string, int> check_trace(const std::string& path) {
  const Json trace = Json::parse(read_text(path));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> open;  // per track, enclosing events
  std::map<std::pair<int, int>, double> latest;
  std::map<std::string, int> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_EQ(event["ph"], "X");
    ++names[event["name"]];
    const std::pair<int, int> track{event["pid"], event["tid"]};
    const double start = event["ts"], end = start + event["dur"].get<double>();
    EXPECT_GE(start, 0);
    EXPECT_GE(end, start);
    EXPECT_GE(start, latest[track]) << "not sorted";
    latest[track] = start;
    auto& stack = open[track];
    constexpr double rounding = 0.002;  // microseconds: times are whole nanoseconds
    while (!stack.empty() && stack.back().second <= start + rounding) stack.pop_back();
    if (!stack.empty()) {
      EXPECT_LE(end, stack.back().second + rounding) << event;
    }
    stack.emplace_back(start, end);
  }
  return names;
}

// The host's time is no part of the device's.
TEST(Profile, NoShareIsAboveTheWhole) {
  const std::vector<std::string> devices = test::kernel_devices();
  if (devices.empty()) GTEST_SKIP() << "no device gives times";
  const Finished run =
      run_heddle({"profile", "step", "mlp:8", "--device", devices.front(), "--steps", "5", "--no-bounds"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  int walls = 0;
  for (const std::string& line : run.out_lines()) {
    if (line.starts_with("untimed")) continue;  // the ratio of two measurements
    walls += line.starts_with("wall time") ? 1 : 0;
    for (size_t at = line.find('%'); at != std::string::npos; at = line.find('%', at + 1)) {
      const size_t begin = line.find_last_not_of("0123456789.", at - 1) + 1;
      EXPECT_LE(std::stod(line.substr(begin, at - begin)), 100.0) << line;
    }
  }
  EXPECT_EQ(walls, 1);
}

TEST(Profile, StepAndTraceOnEveryDevice) {
  std::vector<std::string> devices = test::kernel_devices();
  devices.push_back("null:0");
  for (const std::string& device : devices) {
    const test::TemporaryFolder folder;
    const std::string trace = folder / "trace.json";
    const Finished run = run_heddle(
        {"profile", "step", "mlp:8", "--device", device, "--steps", "5", "--no-bounds", "--trace", trace, "--json"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const Json profile = Json::parse(run.out);
    EXPECT_EQ(profile["steps"], 5);
    EXPECT_EQ(profile["dropped"], 0);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"trace.json"}) << "a temporary file was left";
    double total = 0, launches = 0;
    for (const Json& kernel : profile["kernels"]) {
      total += kernel["total_seconds"].get<double>();
      launches += kernel["count"].get<double>();
      EXPECT_GT(kernel["bytes"].get<double>(), 0);
      EXPECT_FALSE(kernel["computes"].get<std::string>().empty());
      EXPECT_FALSE(kernel["where"].empty()) << kernel;
      EXPECT_EQ(kernel["device"], device);
    }
    EXPECT_EQ(launches, profile["launches"].get<double>());
    EXPECT_NEAR(total, profile["kernel_seconds"].get<double>(), 1e-6);
    EXPECT_LE(total, profile["device_seconds"].get<double>() + 1e-6);
    const std::map<std::string, int> names = check_trace(trace);
    EXPECT_EQ(names.at("submission"), 5) << device;
    for (const char* span : {"record", "capture", "submit", "wait"})
      EXPECT_TRUE(names.contains(span)) << span << " on " << device;
  }
}

TEST(Profile, TextNamesKernelsAndGaps) {
  const Finished run = run_heddle({"profile", "bench", "softmax", "64x100", "--device", "null:0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"kernel", "computes", "gaps", "device time", "max sub exp sum"})
    EXPECT_TRUE(contains(run.out, part));
}

TEST(Profile, TrainingLeavesNothingBehind) {
  if (test::kernel_devices().empty()) GTEST_SKIP() << "no device runs kernels here";
  const test::TemporaryFolder folder;
  const test::RunOptions options{.environment = {{"TMPDIR", folder.path()}}, .interrupt_after = {}};
  const Finished run = run_heddle({"profile", "train", "mnist-mlp", "--device", test::kernel_devices()[0],
                                   "--limit-steps", "9", "--no-bounds", "--json"},
                                  options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json profile = Json::parse(run.out);
  EXPECT_EQ(profile["steps"], 6);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Profile, BadInputIsOneLine) {
  expect_user_error({"profile", "step", "vgg:3", "--device", "null:0"}, "unknown training step");
  expect_user_error({"profile", "step", "mlp:8", "--steps", "0", "--device", "null:0"}, "--steps is 0");
  expect_user_error({"profile", "step", "mlp:8", "--device", "reference:0"}, "takes no kernels");
  expect_user_error({"profile", "bench", "nothing", "3", "--device", "null:0"}, "unknown benchmark");
  expect_user_error({"profile", "train", "mnist-mlp", "--limit-steps", "2", "--device", "null:0"}, "do not count");
  expect_user_error({"bench", "kernel", "--cases", "0123456789abcdef"}, "is kept");
  expect_user_error({"bench", "kernel"}, "--cases");
}

// "... heddle bench kernel --cases ID --device D": the words of that command.
std::vector<std::vector<std::string>> commands_in(const std::string& text) {
  std::vector<std::vector<std::string>> commands;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("heddle bench kernel");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + 7));
    commands.emplace_back();
    for (std::string word; words >> word;) commands.back().push_back(word);
  }
  return commands;
}

// What verbose lines print is run as it stands: on every device, of a product, a generated kernel and a launch over
// many tensors.
TEST(Verbose, EveryLineEndsWithACommandThatRuns) {
  for (const std::string& device : test::kernel_devices()) {
    test::RunOptions options;
    options.environment = {{"HEDDLE_DEBUG", "1"}};
    const Finished verbose =
        run_heddle({"profile", "step", "mlp:8", "--device", device, "--steps", "1", "--no-bounds"}, options);
    ASSERT_EQ(verbose.exit_code, 0) << verbose.err;
    std::istringstream lines(verbose.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" us ") != std::string::npos && line.rfind("  ", 0) == 0 &&
          line.find("  copy") == std::string::npos) {
        EXPECT_TRUE(contains(line, "heddle bench kernel --cases ")) << device;
      }
    }
    const auto commands = commands_in(verbose.err);
    ASSERT_GE(commands.size(), 10u);
    options.environment["HEDDLE_DEBUG"] = "0";
    for (const size_t at : {size_t{0}, commands.size() / 2, commands.size() - 1}) {
      std::vector<std::string> command = commands[at];
      command.push_back("--json");
      const Finished run = run_heddle(command, options);
      ASSERT_EQ(run.exit_code, 0) << run.err;
      const Json row = Json::parse(run.out);
      EXPECT_EQ(row["launches"], 1);
      EXPECT_GT(row["seconds"].get<double>(), 0);
      EXPECT_EQ(row["device"], device);
    }
  }
}

TEST(Verbose, BenchPrintsTheKernelsOfACase) {
  for (const std::string& device : test::kernel_devices()) {
    const Finished run =
        run_heddle({"bench", "layernorm", "--cases", "64x256", "--device", device, "--repetitions", "10", "--verbose"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto commands = commands_in(run.err);
    ASSERT_GE(commands.size(), 1u) << run.err;
    EXPECT_EQ(run_heddle(commands[0]).exit_code, 0);
  }
}

TEST(Draw, HtmlIsOneFileThatShowsEverything) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "step.html";
  const Finished run = run_heddle({"dump", "gpt:2x16x2x32", "--format", "html", "--out", path, "--device", "null:0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string html = read_text(path);
  for (const char* part : {"<!doctype html>", "<svg", "Schedule", "Arena", "last read by kernel", "matmul", "</html>"})
    EXPECT_TRUE(html.find(part) != std::string::npos) << part;
  for (const char* part : {"http:", "https:", "<script src", "<link"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("<pre><"), std::string::npos) << "sources are escaped";
  // The picture follows the window's width, and long cells wrap.
  for (const char* part : {"max-width: 100%; height: auto", "overflow-wrap: anywhere", "viewBox="})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("<svg width="), std::string::npos);
  size_t opened = 0, closed = 0, at = 0;
  for (; (at = html.find("<rect", at)) != std::string::npos; ++at) ++opened;
  for (at = 0; (at = html.find("</rect>", at)) != std::string::npos; ++at) ++closed;
  EXPECT_EQ(opened, closed);
  EXPECT_GT(opened, 10u);
}

TEST(Draw, DotIsTakenByGraphviz) {
  const test::TemporaryFolder folder;
  for (const char* what : {"graph", "groups"}) {
    const std::string path = folder / (std::string(what) + ".dot");
    const Finished run =
        run_heddle({"dump", "mlp:8", "--format", "dot", "--what", what, "--out", path, "--device", "null:0"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::string dot = read_text(path);
    EXPECT_EQ(dot.rfind("digraph", 0), 0u);
    EXPECT_TRUE(dot.find(" -> ") != std::string::npos);
    EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
  }
  if (::access("/usr/bin/dot", X_OK) != 0) GTEST_SKIP() << "Graphviz is not installed";
  EXPECT_EQ(run_program({"/usr/bin/dot", "-Tsvg", folder / "groups.dot", "-o", folder / "groups.svg"}).exit_code, 0);
}

}  // namespace
}  // namespace heddle
