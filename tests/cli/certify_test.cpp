// heddle certify as a user meets it: what it prints, what it refuses, and that no shipped choice of tiles spills, by
// the vendors' compilers that are installed.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/core/dialect/kernel_file.h"
#include "tests/cli/command_test.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::expect_user_error;
using test::Finished;
using test::run_heddle;

// Names a compiler each, and the architecture that is compiled for in these tests.
class CertifyWith : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  static std::vector<Json> rows(const Finished& run) {
    std::vector<Json> all;
    for (const std::string& line : run.out_lines()) all.push_back(Json::parse(line));
    return all;
  }
  Finished certify(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "certify");
    arguments.insert(arguments.end(), {"--compilers", GetParam().first, "--arch", GetParam().second});
    Finished run = run_heddle(arguments);
    absent_ = run.exit_code == 2 && run.err.find("no compiler is installed") != std::string::npos ? run.err : "";
    return run;
  }
  std::string absent_;
};

TEST_P(CertifyWith, PrintsOneRowAKernel) {
  const Finished run = certify({"matmul", "scan", "--json"});
  if (!absent_.empty()) GTEST_SKIP() << absent_;
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> all = rows(run);
  ASSERT_GT(all.size(), 8u) << run.out;
  double densest = -1;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const Json& row = all[i];
    ASSERT_FALSE(row.contains("failure")) << row;
    for (const char* name : {"kernel", "case", "compiler", "arch", "registers", "spill_bytes", "shared_bytes",
                             "occupancy", "instructions", "hot_loop_instructions", "hot_loop_math", "density"})
      EXPECT_TRUE(row.contains(name)) << name << ": " << row;
    EXPECT_EQ(row["arch"], GetParam().second);
    EXPECT_GT(row["registers"], 0);
    EXPECT_GT(row["occupancy"], 0);
    EXPECT_LE(row["occupancy"], 1);
    if (row["density"].is_null()) continue;  // no disassembler
    EXPECT_GE(row["instructions"], row["hot_loop_instructions"]);
    EXPECT_GE(row["hot_loop_instructions"], row["hot_loop_math"]);
    densest = std::max(densest, row["density"].get<double>());
  }
  // Tiles held in registers: most of the loop multiplies, but not all of it.
  if (densest >= 0) {
    EXPECT_GT(densest, 0.5);
    EXPECT_LT(densest, 1.0);
  }
  EXPECT_EQ(all.back()["kernels"], all.size() - 1);
  EXPECT_EQ(all.back()["compilers"].size(), 1u);
}

TEST_P(CertifyWith, ShowsWhatChanged) {
  const Finished before = certify({"scan", "--json"});
  if (!absent_.empty()) GTEST_SKIP() << absent_;
  ASSERT_EQ(before.exit_code, 0) << before.err;
  const test::TemporaryFolder folder;
  const std::string file = folder / "before.json";
  std::ofstream(file) << before.out;
  const Finished same = certify({"scan", "--against", file});
  EXPECT_EQ(same.out, "no change\n");
  std::vector<Json> all = rows(before);
  const int registers = all[0]["registers"].get<int>();
  all[0]["registers"] = registers + 1000;
  std::ofstream changed(file);
  for (const Json& row : all) changed << row << '\n';
  changed << R"({"kernel":"old","case":"x","compiler":"c","arch":")" << GetParam().second
          << R"(","subject":"scan","registers":1,"spill_bytes":0,"shared_bytes":0,"occupancy":1,"instructions":null})";
  changed.close();
  const Finished other = certify({"scan", "--against", file});
  EXPECT_TRUE(
      contains(other.out, "registers " + std::to_string(registers + 1000) + " -> " + std::to_string(registers)));
  EXPECT_TRUE(contains(other.out, "old (x) on " + std::string(GetParam().second) + ": gone"));
  EXPECT_EQ(other.out_lines().size(), 2u) << other.out;
}

// But for what no GPU is given: packed_matmul_grad (core/tiles/packed_tiles.cpp), whose sums AMD's compiler spills.
std::vector<std::string> bodies_of_gpus() {
  std::vector<std::string> names = KernelFile::builtin_names();
  std::erase(names, "packed_matmul_grad");
  return names;
}

TEST_P(CertifyWith, NoShippedChoiceSpills) {
  std::vector<std::string> arguments = bodies_of_gpus();
  arguments.push_back("--json");
  const Finished run = certify(arguments);
  if (!absent_.empty()) GTEST_SKIP() << absent_;
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::vector<Json> all = rows(run);
  EXPECT_EQ(all.back()["failed"], 0);
  all.pop_back();
  std::set<std::string> certified;
  for (const Json& row : all) {
    certified.insert(row["subject"].get<std::string>());
    const std::string name = row["kernel"].get<std::string>() + " (" + row["case"].get<std::string>() + ") on " +
                             row["arch"].get<std::string>();
    if (row.contains("failure"))
      ADD_FAILURE() << name << ": " << row["failure"];
    else
      EXPECT_EQ(row["spill_bytes"], 0) << name;
  }
  const std::vector<std::string> bodies = bodies_of_gpus();
  EXPECT_EQ(certified, (std::set<std::string>(bodies.begin(), bodies.end())));
}

INSTANTIATE_TEST_SUITE_P(Compilers, CertifyWith,
                         testing::Values(std::pair{"nvidia", "sm_80"}, std::pair{"amd", "navi21"},
                                         std::pair{"intel", "dg2"}),
                         [](const auto& info) { return std::string(info.param.first); });

// A selection for every family, of what spilled there once: each takes seconds.
struct Selection {
  const char* compiler;
  const char* archs;
  std::vector<std::string> subjects;
};

class CertifySelection : public testing::TestWithParam<Selection> {};

TEST_P(CertifySelection, SpillsNothing) {
  std::vector<std::string> arguments = {"certify"};  // names first: --arch takes all that follows
  arguments.insert(arguments.end(), GetParam().subjects.begin(), GetParam().subjects.end());
  for (const char* option : {"--json", "--compilers", GetParam().compiler, "--arch", GetParam().archs})
    arguments.emplace_back(option);
  const Finished run = run_heddle(arguments);
  if (run.exit_code == 2 && contains(run.err, "no compiler is installed")) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::set<std::string> archs;
  for (const std::string& line : run.out_lines()) {
    const Json row = Json::parse(line);
    if (!row.contains("kernel")) continue;
    archs.insert(row["arch"].get<std::string>());
    ASSERT_FALSE(row.contains("failure")) << row;
    EXPECT_EQ(row["spill_bytes"], 0) << row;
  }
  const std::string asked = GetParam().archs;
  EXPECT_EQ(archs.size(), 1u + static_cast<size_t>(std::count(asked.begin(), asked.end(), ','))) << run.out;
}

INSTANTIATE_TEST_SUITE_P(Families, CertifySelection,
                         testing::Values(Selection{"nvidia", "sm_75,sm_80,sm_90,sm_100", {"fft", "lu"}},
                                         Selection{"nvidia", "sm_120", {"conv"}},
                                         Selection{"amd", "polaris10,vega10,navi21,gfx1100", {"fft", "lu"}},
                                         Selection{"intel", "skl,tgllp,dg2,pvc", {"fft"}}),
                         [](const auto& info) {
                           return std::string(info.param.compiler) + (info.param.subjects[0] == "conv" ? "Conv" : "");
                         });

TEST(Certify, KnowsEveryBodyOfTheBuild) {
  const Finished run = run_heddle({"certify", "?"});
  for (const std::string& body : KernelFile::builtin_names())
    EXPECT_TRUE(contains(run.err, " " + body + ",")) << "no case in tools/certify/cases.cpp";
}

TEST(Certify, UnknownNamesAreOneLine) {
  expect_user_error({"certify", "matmull"}, "unknown body or recipe 'matmull'; did you mean matmul?");
  expect_user_error({"certify", "--compilers", "nvidea"}, "unknown compiler 'nvidea'; did you mean nvidia?");
  expect_user_error({"certify", "--arch", "navi12"}, "unknown architecture 'navi12'; did you mean navi21");
  expect_user_error({"certify", "--against", "/nowhere/before.json"}, "cannot read '/nowhere/before.json'");
}

// Without ocloc in PATH: alone it is an error, beside another compiler a line.
TEST(Certify, SaysWhichCompilerIsMissing) {
  const test::RunOptions bare{.environment = {{"PATH", "/nowhere"}}};
  const Finished none = run_heddle({"certify", "scan", "--compilers", "intel"}, bare);
  EXPECT_EQ(none.exit_code, 2) << none.err;
  EXPECT_EQ(none.out, "");
  EXPECT_TRUE(contains(none.err, "no compiler is installed; intel: ocloc not found"));
  EXPECT_EQ(std::count(none.err.begin(), none.err.end(), '\n'), 1) << none.err;
  const Finished left =
      run_heddle({"certify", "scan", "--compilers", "intel,amd", "--arch", "navi21,dg2", "--json"}, bare);
  if (left.exit_code == 2) GTEST_SKIP() << left.err;
  EXPECT_EQ(left.exit_code, 0) << left.err;
  EXPECT_TRUE(contains(left.err, "left out intel: ocloc not found"));
  EXPECT_TRUE(contains(left.err, "left: amd"));
  EXPECT_TRUE(contains(left.out, "\"arch\":\"navi21\""));
}

TEST(Certify, FilesThatHoldNoCertificatesAreOneLine) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "x.json") << "{\"kernel\": 1}\n";
  expect_user_error({"certify", "--from", folder / "x.json"}, "line 1: no certificate");
  std::ofstream(folder / "y.json") << "\n";
  expect_user_error({"certify", "--from", folder / "y.json"}, "holds no certificates");
}

// Files of several runs may be joined: what was compiled again counts, compilers are named once.
TEST(Certify, TheLastOfEqualRowsCounts) {
  const test::TemporaryFolder folder;
  const auto row = [](const char* arch, int registers) {
    return Json{{"kernel", "k"},          {"case", "c"},       {"compiler", "nvidia"},
                {"arch", arch},           {"subject", "scan"}, {"registers", registers},
                {"spill_bytes", 0},       {"shared_bytes", 0}, {"occupancy", 1},
                {"instructions", nullptr}}
        .dump();
  };
  const std::string sum = R"({"kernels":1,"failed":0,"spilling":0,"compilers":["nvidia: NVRTC 13.0"]})";
  std::ofstream(folder / "rows.json") << row("sm_80", 10) << '\n'
                                      << row("sm_90", 20) << '\n'
                                      << sum << '\n'
                                      << row("sm_80", 30) << '\n'
                                      << sum << '\n';
  const Finished run = run_heddle({"certify", "--from", folder / "rows.json", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> lines = run.out_lines();
  ASSERT_EQ(lines.size(), 3u) << run.out;
  EXPECT_EQ(Json::parse(lines[0])["registers"], 30);
  EXPECT_EQ(Json::parse(lines[1])["registers"], 20);
  EXPECT_EQ(Json::parse(lines[2])["compilers"].size(), 1u);
}

// The model beside a device: what it needs to know is asked for, and every schedule is a row.
TEST(Certify, MeasureAsksForTheFamilyOfADevice) {
  expect_user_error({"certify", "--measure", "opencl:0", "--size", "128"},
                    "name the family that the device belongs to");
  expect_user_error({"certify", "--measure", "opencl:0", "--size", "8"}, "--size 8: 128 to 16384");
}

TEST(Certify, MeasurePrintsEveryScheduleBesideItsPrediction) {
  const Finished run = run_heddle(
      {"certify", "--measure", "opencl:0", "--arch", "navi21", "--size", "128", "--schedules", "3", "--json"});
  if (run.exit_code == 2) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<std::string> lines = run.out_lines();
  ASSERT_EQ(lines.size(), 4u) << run.out;
  std::set<std::string> schedules;
  for (size_t i = 0; i < 3; ++i) {
    const Json row = Json::parse(lines[i]);
    schedules.insert(row["schedule"].get<std::string>());
    EXPECT_GT(row["predicted"], 0) << row;
    EXPECT_LE(row["predicted"], 1) << row;
    EXPECT_GT(row["seconds"], 0) << row;
  }
  EXPECT_EQ(schedules.size(), 3u);
  EXPECT_EQ(Json::parse(lines[3])["schedules"], 3);
}

}  // namespace
}  // namespace heddle
