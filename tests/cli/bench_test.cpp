// heddle bench as a user and a script meet it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
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
using test::run_heddle;

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

void write_text(const std::string& path, const std::string& text) {
  test::write_bytes(path, {text.begin(), text.end()});
}

TEST(Bench, BadInputIsOneLine) {
  const auto fails = [](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.begin(), "bench");
    arguments.insert(arguments.end(), {"--device", "reference:0"});
    expect_user_error(arguments, part);
  };
  fails({"juggling"}, "unknown benchmark 'juggling'; known: matmul");
  fails({"matmul", "--cases", "8x8"}, "'8x8' is not of the form");
  fails({"matmul", "--cases", "8x8x0"}, "MxNxK");
  fails({"matmul", "--cases", "8x8x8x"}, "MxNxK");
  fails({"matmul", "--cases", "xy:8x8x8"}, "MxNxK");
  fails({"matmul", "--cases", "99999999999999999999x8x8"}, "overflows");
  fails({"matmul", "--cases", "3000000000x8x8"}, "below 2^31");
  fails({"matmul", "--cases", "2000000000x2000000000x2000000000"}, "at most 2^31 - 1");
  fails({"matmul", "--cases", "46000x46000x46000"}, "GiB; this machine has");
  fails({"matmul", "--peers", "abacus"}, "unknown peer 'abacus'");
  fails({"matmul", "--repetitions", "3"}, "at least 10");
  fails({"matmul", "--dtype", "i64"}, "no dtype i64");
  fails({"matmul", "--dtype", "f8"}, "f8");
  fails({"--suite", "juggling"}, "unknown suite 'juggling'; known: all, issue3");
  fails({"--suite", "squares", "--cases", "8x8x8"}, "--suite has its own cases");
  fails({}, "name a family or a --suite");
  fails({"matmul", "--cases", "8x8x8", "--plot", "/proc/nowhere/x.svg"}, "/proc/nowhere");
  fails({"optimizer", "--cases", "juggle:2x2"}, "adamw:TENSORSxELEMENTS");
}

// Drivers of CPU devices keep the private arrays of kernels on the stacks of their threads, which `ulimit -s` sizes:
// 256 KiB of panels here.
TEST(Bench, SmallStacksAreEnough) {
  const std::string heddle = std::string(HEDDLE_BINARY_DIR) + "/bin/heddle";
  for (const char* device : {"opencl:0", "vulkan:0"}) {
    if (!test::available(device)) continue;
    const Finished run = test::run_program(
        {"/bin/bash", "-c",
         "ulimit -s 256; exec \"$0\" bench matmul --cases 512x512x512 --repetitions 10 --device \"$1\"", heddle,
         device});
    EXPECT_EQ(run.exit_code, 0) << device << ": signal " << run.signal << ' ' << run.err;
  }
}

// PoCL's replays launch chains of the graph's 200 kernels, which no check may take for fusion.
TEST(Bench, HostTimeIsMeasuredWhereLaunchesAreChained) {
  for (const char* device : {"null:0", "opencl:0"}) {
    if (!test::available(device)) GTEST_SKIP() << device << " is absent";
    const Finished run = run_heddle({"bench", "dispatch", "--cases", "record_per_op,replay_per_step", "--repetitions",
                                     "10", "--device", device, "--json"});
    ASSERT_EQ(run.exit_code, 0) << device << ": " << run.err;
    const std::vector<Json> rows = json_lines(run.out);
    ASSERT_EQ(rows.size(), 2u) << run.out;
    for (const Json& row : rows) EXPECT_GT(row["seconds"].get<double>(), 0) << row;
  }
}

TEST(Bench, MatmulRow) {
  const Finished run =
      run_heddle({"bench", "matmul", "--cases", "8x4x2", "--device", "reference:0", "--repetitions", "10", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json row = Json::parse(run.out);
  EXPECT_EQ(row["bench"], "matmul");
  EXPECT_EQ(row["case"], "8x4x2");
  EXPECT_EQ(row["dtype"], "f32");
  EXPECT_EQ(row["device"], "reference:0");
  EXPECT_EQ(row["flops"], 2 * 8 * 4 * 2);
  EXPECT_EQ(row["bytes"], 4 * (8 * 2 + 2 * 4 + 8 * 4));
  EXPECT_TRUE(row["fraction"].is_null());
  EXPECT_TRUE(row["peers"].empty());
  EXPECT_NEAR(row["gflops"].get<double>(), 2 * 8 * 4 * 2 / row["seconds"].get<double>() * 1e-9, 1e-9);
  EXPECT_LE(row["seconds_low"].get<double>(), row["seconds"].get<double>());
}

TEST(Bench, ComparesWithTheRowsOfAnotherRun) {
  const test::TemporaryFolder folder;
  const std::string base = folder / "base.json";
  const auto row = [](const std::string& name, const std::string& seconds) {
    return "{\"bench\": \"copy\", \"case\": \"" + name +
           "\", \"dtype\": \"f32\", \"device\": \"reference:0\", \"seconds\": " + seconds + "}\n";
  };
  write_text(base,
             row("64", "1e3") + row("128", "1e-12") + row("7", "1") + "{\"goal\": \"something\", \"met\": true}\n\n");
  const std::vector<std::string> command = {"bench",       "copy",          "--cases", "64,128,256", "--device",
                                            "reference:0", "--repetitions", "10",      "--compare",  base};
  std::vector<std::string> as_json = command;
  as_json.push_back("--json");
  const Finished run = run_heddle(as_json);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> lines = json_lines(run.out);
  ASSERT_EQ(lines.size(), 3u + 2u + 1u);
  EXPECT_EQ(lines[3]["case"], "64");
  const double first = 1e3 / lines[0]["seconds"].get<double>(), second = 1e-12 / lines[1]["seconds"].get<double>();
  EXPECT_NEAR(lines[3]["ratio"].get<double>() / first, 1, 1e-9);
  EXPECT_NEAR(lines[5]["worst"].get<double>() / second, 1, 1e-9);
  EXPECT_EQ(lines[5]["worst_case"], "copy 128 f32 reference:0");
  EXPECT_NEAR(lines[5]["geometric_mean"].get<double>() / std::sqrt(first * second), 1, 1e-9);
  EXPECT_EQ(lines[5]["only_base"], 1);  // 7
  EXPECT_EQ(lines[5]["only_now"], 1);   // 256
  const Finished text = run_heddle(command);
  EXPECT_TRUE(contains(text.out, "2 rows: worst") && contains(text.out, "1 rows only in the base, 1 only now"))
      << text.out;

  write_text(base, row("64", "1") + "words\n");
  expect_user_error(command, "base.json:2: no line of heddle bench --json");
  expect_user_error({"bench", "copy", "--cases", "64", "--device", "reference:0", "--compare", folder / "none"},
                    "none");
}

TEST(Bench, SuiteOfAllFamiliesAndSteps) {
  const Finished run = run_heddle({"bench", "--suite", "all", "--list", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::set<std::string> names;
  for (const Json& line : json_lines(run.out))
    names.insert(line["bench"].get<std::string>() + " " + line["case"].get<std::string>());
  for (const char* step : {"mlp:32", "char-gpt", "cnn:32", "mnist-cnn:64", "resnet18:32x16", "resnet18:16x64",
                           "vae:128", "char-lstm:32"}) {
    EXPECT_TRUE(names.contains(std::string("step ") + step)) << step;
  }
  for (const char* first : {"matmul 1024x1024x1024", "softmax 4096x1024", "sort 256x4096", "fft 64x4096"})
    EXPECT_TRUE(names.contains(first)) << first;
}

TEST(Bench, PlotIsACompleteSvgFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/roof.svg";
  const Finished run =
      run_heddle({"bench", "matmul", "elementwise", "--cases", "64", "--device", "reference:0", "--plot", path});
  EXPECT_EQ(run.exit_code, 2);  // 64 is no matmul
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_EQ(run_heddle({"bench", "elementwise", "--cases", "64,4096", "--device", "reference:0", "--repetitions", "10",
                        "--plot", path})
                .exit_code,
            0);
  std::ifstream in(path);
  const std::string svg(std::istreambuf_iterator<char>(in), {});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n")) << svg.substr(0, 200);
  EXPECT_TRUE(contains(svg, "elementwise 4096"));
  EXPECT_TRUE(contains(svg, "operations per byte"));
}

TEST(Bench, ASignalKeepsWhatWasMeasured) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "roof.svg";
  std::string cases = "64";
  for (int size = 65; size < 400; ++size) cases += "," + std::to_string(size);
  for (const int signal : {SIGINT, SIGTERM}) {
    const Finished run = run_heddle({"bench", "elementwise", "--cases", cases, "--device", "reference:0",
                                     "--repetitions", "10", "--json", "--plot", path},
                                    {.interrupt_after = "\n", .signal = signal});
    EXPECT_EQ(run.exit_code, 128 + signal) << run.signal << run.err;
    const std::vector<Json> rows = json_lines(run.out);
    EXPECT_GE(rows.size(), 1u);
    EXPECT_LT(rows.size(), 336u);
    EXPECT_TRUE(contains(test::read_text(path), rows.back()["case"].get<std::string>()));
    std::filesystem::remove(path);
  }
}

TEST(Bench, ListNamesEveryStandardCase) {
  const Finished run =
      run_heddle({"bench", "matmul", "softmax", "optimizer", "--list", "--json", "--device", "reference:0"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> rows = json_lines(run.out);
  EXPECT_GE(rows.size(), 6u);
  for (const Json& row : rows) EXPECT_GT(row["bytes"].get<double>(), 0) << row.dump();
}

}  // namespace
}  // namespace heddle
