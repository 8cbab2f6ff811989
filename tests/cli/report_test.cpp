// `heddle report`: the data inside the page, and folders that are no runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "heddle/io/atomic_file.h"
#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;

constexpr const char* metrics =
    R"({"event":"start","recipe":"mnist-cnn","parameters":431080,"steps":4,"device":"opencl:0","seconds":0}
{"event":"step","step":1,"epoch":0.5,"loss":2.5,"lr":0.001,"grad_norm":null,"samples_per_second":1000,"seconds":1}
{"event":"sample","step":1,"text":"</script><b>ROMEO</b>"}
{"event":"step","step":2,"epoch":1,"loss":1.5,"lr":0.0005,"grad_norm":0.25,"samples_per_second":1200,"seconds":2}
{"event":"eval","step":2,"split":"validation","loss":1.25,"metrics":{"accuracy":0.75},"confusion":[[3,1],[0,4]],"seconds":2.5}
{"event":"loader","epoch":1,"fetch":0.5,"preprocess":0.25,"copy":0.125,"compute":1,"idle":0.25,"starved":0.125,"bottleneck":"compute"}
)";

class Report : public testing::Test {
 protected:
  std::string run(const std::string& name, const std::string& lines, const std::string& config = "") {
    const std::string folder = parent / name;
    std::filesystem::create_directories(folder);
    write_file_atomically(folder + "/metrics.jsonl", lines);
    if (!config.empty()) write_file_atomically(folder + "/config.toml", config);
    return folder;
  }
  static Json data(const std::vector<std::string>& folders) {
    std::vector<std::string> arguments = {"report", "--json"};
    arguments.insert(arguments.end(), folders.begin(), folders.end());
    const test::Finished done = test::run_heddle(arguments);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return Json::parse(done.out, nullptr, false);
  }
  static void expect_refused(const std::string& folder, const std::string& part) {
    const test::Finished done = test::run_heddle({"report", folder, "-o", folder + ".html"});
    EXPECT_EQ(done.exit_code, 2) << done.out;
    EXPECT_TRUE(contains(done.err, part));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_FALSE(std::filesystem::exists(folder + ".html"));
  }
  test::TemporaryFolder parent;
};

TEST_F(Report, ThePageHoldsWhatTheRunWrote) {
  const std::string folder = run("first", metrics, "[optimizer]\nlr = 0.002\n[model]\nwidth = 32\n");
  write_file_atomically(folder + "/environment.json", R"({"device":{"id":"opencl:0"},"commit":"abc"})");
  const test::Finished done = test::run_heddle({"report", folder});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out, folder + "/report.html\n");
  const std::string page = test::read_text(folder + "/report.html");

  std::smatch block;
  ASSERT_TRUE(std::regex_search(page, block, std::regex("<script type=application/json id=runs>([^<]*)</script>")));
  const Json runs = Json::parse(block[1].str());
  EXPECT_EQ(runs, data({folder}));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["name"], "first");
  EXPECT_EQ(runs[0]["start"]["parameters"], 431080);
  EXPECT_EQ(runs[0]["steps"]["loss"], Json::parse("[2.5, 1.5]"));
  EXPECT_EQ(runs[0]["steps"]["grad_norm"], Json::parse("[null, 0.25]"));
  EXPECT_EQ(runs[0]["steps"]["seconds"], Json::parse("[1.0, 2.0]"));
  EXPECT_EQ(runs[0]["evals"][0]["confusion"], Json::parse("[[3, 1], [0, 4]]"));
  EXPECT_EQ(runs[0]["loaders"][0]["bottleneck"], "compute");
  EXPECT_EQ(runs[0]["samples"][0]["text"], "</script><b>ROMEO</b>");
  EXPECT_EQ(
      runs[0]["config"],
      Json::parse(
          R"([{"key":"optimizer.lr","value":"0.002","initial":"0.001"},{"key":"model.width","value":"32","initial":null}])"));
  EXPECT_EQ(runs[0]["environment"]["commit"], "abc");
  EXPECT_EQ(runs[0]["done"], nullptr);

  // One file that asks nobody for anything.
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)\\s*=\\s*[\"']?(https?:|//)|@import|url\\(http")));
  EXPECT_TRUE(contains(page, "default-src 'none'"));
}

// What the page shows, as a browser would draw it.
class ReportPage : public Report {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/bin/node")) GTEST_SKIP() << "node is not installed";
  }
  std::string texts(const std::string& folder) {
    EXPECT_EQ(test::run_heddle({"report", folder}).exit_code, 0);
    const test::Finished page = test::run_program(
        {"/usr/bin/node", std::string(HEDDLE_SOURCE_DIR) + "/tests/cli/page.js", folder + "/report.html"});
    EXPECT_EQ(page.exit_code, 0) << page.err;
    return page.out;
  }
};

TEST_F(ReportPage, ASingleEvaluationSaysWhatItIs) {
  const std::string once = texts(run("once", metrics));
  EXPECT_TRUE(contains(once, "text.value: validation 0.75\n"));
  EXPECT_TRUE(contains(once, "text.value: validation 1.25\n"));
  EXPECT_FALSE(contains(once, "text.: 2\ntext.: 2\n"));  // one place on the axis of updates is named once
  const std::string twice = texts(run(
      "twice", std::string(metrics) +
                   R"({"event":"eval","step":4,"split":"validation","loss":1,"metrics":{"accuracy":0.875}})" + "\n"));
  EXPECT_FALSE(contains(twice, "text.value:"));
}

// Of all updates, as the terminal says it; a process that was killed says it through the updates that it logged.
TEST_F(ReportPage, OneSpeed) {
  const Json killed = data({run("killed", metrics)})[0]["speed"];
  EXPECT_EQ(killed.size(), 1u);
  EXPECT_NEAR(killed["samples_per_second"].get<double>(), 2 / (1 / 1000.0 + 1 / 1200.0), 1e-9);
  const std::string done =
      run("done", std::string(metrics) + R"({"event":"done","step":2,"samples_per_second":123})" + "\n");
  EXPECT_EQ(data({done})[0]["speed"], Json::parse(R"({"samples_per_second":123})"));
  const std::string shown = texts(done);
  EXPECT_TRUE(contains(shown, "b.: 123\nsmall.: samples/s, all updates\n"));
}

TEST_F(Report, AResumedRunIsOneCurve) {
  const std::string lines = R"({"event":"start","seconds":0}
{"event":"step","step":1,"loss":4,"seconds":10}
{"event":"step","step":2,"loss":3,"seconds":20}
{"event":"eval","step":2,"split":"test","loss":3,"seconds":20}
{"event":"step","step":3,"loss":9,"seconds":30}
{"event":"loader","epoch":1,"compute":2}
{"event":"start","step":2,"steps":4}
{"event":"loader","epoch":1,"compute":1}
{"event":"loader","epoch":2,"compute":4}
{"event":"step","step":3,"loss":2,"seconds":10}
{"event":"interrupted","step":3,"seconds":11}
)";
  const Json r = data({run("resumed", lines)})[0];
  EXPECT_EQ(r["steps"]["loss"], Json::parse("[4.0, 3.0, 2.0]"));
  EXPECT_EQ(r["steps"]["seconds"], Json::parse("[10.0, 20.0, 30.0]"));
  EXPECT_EQ(r["evals"].size(), 1u);
  EXPECT_EQ(r["interrupted"], true);
  EXPECT_EQ(r["notes"], Json::parse(R"(["resumed at update 2", "interrupted at update 3"])"));
  EXPECT_EQ(r["loaders"][1]["compute"], 1.0);  // of a process each
  EXPECT_EQ(r["loaders"][2]["compute"], 3.0);
}

TEST_F(Report, LongRunsAreThinned) {
  std::string lines = "{\"event\":\"start\"}\n";
  for (int step = 1; step <= 9000; ++step)
    lines += "{\"event\":\"step\",\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(step % 3) + "}\n";
  const Json r = data({run("long", lines)})[0];
  EXPECT_EQ(r["every"], 3);
  EXPECT_EQ(r["steps"]["step"].size(), 3000u);
  EXPECT_EQ(r["steps"]["step"][0], 3.0);
  EXPECT_EQ(r["steps"]["loss"][2999], 1.0);
  EXPECT_EQ(r["steps"]["loss_low"][2999], 0.0);  // what a mean hides is in the band
  EXPECT_EQ(r["steps"]["loss_high"][2999], 2.0);
  EXPECT_FALSE(r["steps"].contains("step_low"));
}

TEST_F(Report, ImagesComeIntoThePageFromTheRunsFolderOnly) {
  const std::string png = "\x89PNG\r\n";
  write_file_atomically(parent / "outside.png", png);
  const std::string folder =
      run("images",
          "{\"event\":\"sample\",\"step\":1,\"image\":\"a.png\"}\n{\"event\":\"sample\",\"step\":2,\"image\":\"../"
          "outside.png\"}\n{\"event\":\"sample\",\"step\":3,\"image\":\"b.png\"}\n");
  write_file_atomically(folder + "/a.png", png);
  write_file_atomically(folder + "/b.png", "text");
  const Json samples = data({folder})[0]["samples"];
  EXPECT_EQ(samples[0]["image"], "data:image/png;base64,iVBORw0K");
  EXPECT_EQ(samples[1]["image"], nullptr);
  EXPECT_EQ(samples[2]["image"], nullptr);
}

TEST_F(Report, SeveralRunsAndEqualNames) {
  const std::string a = run("a/same", metrics), b = run("b/same", metrics), c = run("c", metrics);
  const std::string out = parent / "compare.html";
  const test::Finished done = test::run_heddle({"report", a, b, c, "-o", out});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(std::filesystem::exists(out));
  const Json runs = data({a, b, c});
  EXPECT_EQ(runs[0]["name"], a);
  EXPECT_EQ(runs[1]["name"], b);
  EXPECT_EQ(runs[2]["name"], "c");
}

TEST_F(Report, ALineCutByAKillIsPassedOver) {
  const Json r = data({run("killed", std::string(metrics) + "{\"event\":\"step\",\"st")})[0];
  EXPECT_EQ(r["steps"]["step"].size(), 2u);
  EXPECT_TRUE(contains(r["notes"][0], "unfinished"));
}

TEST_F(Report, BadInputIsOneLine) {
  run("good", metrics);
  expect_refused(parent / "good1", "no such folder; did you mean good?");
  expect_refused(parent / "elsewhere", "no such folder; runs beside it: good");
  std::filesystem::create_directories(parent / "empty");
  expect_refused(parent / "empty", "holds no metrics.jsonl; not the folder of a run");
  expect_refused(run("nothing", ""), "is empty; nothing was trained yet");
  expect_refused(run("broken", "{\"event\":\"start\"}\n{\"event\":\n{\"event\":\"done\"}\n"),
                 "metrics.jsonl:2: is not an event");
  expect_refused(run("list", "[1]\n{}\n"), "metrics.jsonl:1: is not an event");
  expect_refused(run("config", metrics, "[run\n"), "config.toml:1: ");
  const std::string environment = run("environment", metrics);
  write_file_atomically(environment + "/environment.json", "[");
  expect_refused(environment, "environment.json: is not a JSON object");
  const test::Finished unwritable = test::run_heddle({"report", parent / "good", "-o", parent / "no/such/folder.html"});
  EXPECT_EQ(unwritable.exit_code, 2);
}

}  // namespace
}  // namespace heddle
