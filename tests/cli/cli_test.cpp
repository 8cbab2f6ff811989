// The command line as a user and a script meet it: JSON, exit codes, one-line errors, help.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/contract/quirks.h"
#include "heddle/core/op/op.h"
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

TEST(Devices, JsonListsEveryBackend) {
  const Finished run = run_heddle({"devices", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json list = Json::parse(run.out);
  ASSERT_TRUE(list.is_array());
  std::set<std::string> backends;
  for (const Json& d : list) {
    for (const char* key : {"id", "backend", "name", "driver", "available", "reason", "caps"})
      EXPECT_TRUE(d.contains(key)) << key;
    EXPECT_EQ(d["available"].get<bool>(), d["reason"].get<std::string>().empty()) << d.dump();
    EXPECT_EQ(d["caps"].empty(), !d["available"].get<bool>());
    backends.insert(d["backend"].get<std::string>());
  }
  EXPECT_TRUE(backends.count("reference") == 1 && backends.count("null") == 1);
}

TEST(Devices, AnAbsentDriverHasItsReason) {
  const Finished run = test::run_heddle({"devices"}, {.environment = {{"OCL_ICD_VENDORS", "/nonexistent"}}});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(contains(run.out, "reference:0"));
  if (contains(run.out, "libOpenCL.so.1 found")) {
    EXPECT_TRUE(contains(run.out, "/nonexistent, which OCL_ICD_VENDORS names")) << run.out;
  }
}

// All rows of the table, and which of them are of a device that is here.
TEST(Devices, QuirksAreTheTable) {
  const Finished run = run_heddle({"devices", "--quirks", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json rows = Json::parse(run.out);
  ASSERT_EQ(rows.size(), quirk_table().size());
  const Json devices = Json::parse(run_heddle({"devices", "--json"}).out);
  size_t here = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["quirk"], std::string(quirk_table()[i].name));
    EXPECT_EQ(rows[i]["act"], std::string(quirk_table()[i].act));
    here += rows[i]["devices"].size();
    for (const Json& id : rows[i]["devices"]) {
      const auto device = std::find_if(devices.begin(), devices.end(), [&](const Json& d) { return d["id"] == id; });
      ASSERT_NE(device, devices.end());
      EXPECT_TRUE((*device)["driver"].get<std::string>().starts_with(rows[i]["driver"].get<std::string>()));
    }
  }
  const Finished text = run_heddle({"devices", "--quirks"});
  ASSERT_EQ(text.exit_code, 0);
  EXPECT_EQ(contains(text.out, "\n* ") || text.out.starts_with("* "), here > 0) << text.out;
  EXPECT_TRUE(contains(text.out, "compiles-one-by-one: Portable Computing Language (opencl), versions: all"));
}

TEST(Ops, RowsAreTheTable) {
  const Finished run = run_heddle({"ops", "--rows", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json rows = Json::parse(run.out);
  ASSERT_EQ(rows.size(), all_ops().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["name"], std::string(all_ops()[i]->name));
    EXPECT_EQ(rows[i]["kind"], std::string(name_of(all_ops()[i]->kind)));
    EXPECT_FALSE(rows[i]["dtypes"].empty());
    EXPECT_TRUE(rows[i]["gradient"] == true || !rows[i]["gradient"].get<std::string>().empty()) << rows[i].dump();
    EXPECT_TRUE(rows[i]["devices"].is_array());
  }
  const auto row = [&](const std::string& name) {
    return *std::find_if(rows.begin(), rows.end(), [&](const Json& r) { return r["name"] == name; });
  };
  EXPECT_EQ(row("exp")["gradient"], true);
  EXPECT_EQ(row("exp")["dtypes"], (Json{"f32", "f16", "bf16", "f64"}));
  EXPECT_TRUE(row("argmax")["gradient"].is_string());
}

TEST(Version, TextAndJson) {
  EXPECT_TRUE(contains(run_heddle({"version"}).out, "heddle 0.1.0"));
  const Json version = Json::parse(run_heddle({"version", "--json"}).out);
  EXPECT_EQ(version["version"], "0.1.0");
  EXPECT_FALSE(version["backends"].empty());
}

TEST(Help, EveryCommandHasAnExample) {
  for (const char* command : {"devices", "doctor", "train", "eval", "ops", "dump", "profile", "kernel", "bench", "tune",
                              "generate", "tokenize", "pack", "version"}) {
    const Finished run = run_heddle({command, "--help"});
    EXPECT_EQ(run.exit_code, 0) << command;
    EXPECT_TRUE(contains(run.out, std::string("Example:\n  heddle ") + command));
    if (std::string(command) != "tokenize") {
      EXPECT_TRUE(contains(run.out, "--json"));
    }  // its subcommands have it
  }
  EXPECT_TRUE(contains(run_heddle({"tokenize", "info", "--help"}).out, "--json"));
  EXPECT_EQ(run_heddle({"--help"}).exit_code, 0);
}

TEST(BadInput, CommandsAndOptions) {
  expect_user_error({}, "subcommand");
  expect_user_error({"nope"}, "unknown command 'nope'; known: train");
  expect_user_error({"trian"}, "unknown command 'trian'; did you mean train?; known: train");
  expect_user_error({"cache", "lsit"},
                    "unknown command 'lsit'; did you mean list?; known: list, clear, pack, unpack; "
                    "see heddle cache --help");
  expect_user_error({"tokenize", "tarin", "--vocabulary", "300"}, "unknown command 'tarin'; did you mean train?");
  expect_user_error({"profile", "setp"}, "unknown command 'setp'; did you mean step?");
  expect_user_error({"cache"}, "subcommand");
  expect_user_error({"train", "mnist-mlp", "--nope"}, "see heddle train --help");
  expect_user_error({"cache", "list", "--nope"}, "see heddle cache list --help");
  expect_user_error({"train", "mnist-mlp", "--set", "optimizer.learning_rate=1"},
                    "unknown key 'optimizer.learning_rate'; did you mean optimizer.lr?");
  expect_user_error({"devices", "--colour"}, "--colour");
  expect_user_error({"train"}, "recipe");
  expect_user_error({"train", "resnet"}, "unknown recipe 'resnet'; known: mnist-mlp");
  expect_user_error({"train", "mnist-mlp", "--epochs", "many"}, "--epochs");
  expect_user_error({"train", "mnist-mlp", "--seed", "-1"}, "--seed");
  expect_user_error({"train", "mnist-mlp", "--seed", "99999999999999999999"}, "--seed");
  expect_user_error({"eval", "mnist-mlp"}, "heddle eval RUN, or --model RUN");
  expect_user_error({"eval"}, "heddle eval RUN, or --model RUN");
  expect_user_error({"dump", "mnist-mlp", "--what", "soul", "--device", "reference:0"}, "unknown view 'soul'");
  EXPECT_TRUE(contains(run_heddle({"dump", "mnist-mlp", "--passes", "--device", "null:0"}).out, "cse: "));
  expect_user_error({"dump", "mnist-mlp:0", "--device", "reference:0"}, "mnist-mlp");
  expect_user_error({"dump", "mlp:8", "--format", "pdf", "--device", "null:0"}, "unknown format 'pdf'");
}

TEST(BadInput, AMisspeltOptionNamesTheNearest) {
  expect_user_error({"devices", "--jsn"}, "unknown option '--jsn'; did you mean --json?; see heddle devices --help");
  expect_user_error({"train", "mnist-mlp", "--epcohs", "3"}, "unknown option '--epcohs'; did you mean --epochs?");
  expect_user_error({"train", "mnist-mlp", "--epcohs=3"}, "unknown option '--epcohs'; did you mean --epochs?");
  expect_user_error({"train", "mnist-mlp", "-epochs", "3"}, "unknown option '-epochs'; did you mean --epochs?");
  expect_user_error({"train", "mnist-mlp", "--batchsize", "3"}, "unknown option '--batchsize'; did you mean --batch");
  expect_user_error({"cache", "list", "--jsno"}, "did you mean --json?; see heddle cache list --help");
  expect_user_error({"eval", "mnist-mlp", "--modle", "a.safetensors"},
                    "unknown option '--modle'; did you mean --model");
  expect_user_error({"--versoin"}, "unknown option '--versoin'; see heddle --help");
  expect_user_error({"devices", "--qqqqqqqq"}, "unknown option '--qqqqqqqq'; see heddle devices --help");
  expect_user_error({"devices", "-7"}, "not expected: -7");
}

TEST(BadInput, Devices) {
  expect_user_error({"train", "mnist-mlp", "--device", "abacus:0"}, "abacus:0");
  expect_user_error({"train", "mnist-mlp", "--device", "reference:7"}, "reference:7");
  expect_user_error({"train", "mnist-mlp", "--device", "null:0"}, "computes nothing");
  const Finished run = run_heddle({"bench", "elementwise"}, {.environment = {{"HEDDLE_DEVICE", "abacus"}}});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(contains(run.err, "abacus"));
}

TEST(BadInput, Kernel) {
  expect_user_error({"kernel", "nothing"}, "nothing");
  expect_user_error({"kernel", "/nonexistent/a.hk"}, "/nonexistent/a.hk");
  expect_user_error({"kernel", "matmul", "--set", "TM"}, "NAME=VALUE");
  expect_user_error({"kernel", "matmul", "--set", "TM=x"}, "'x' is not a number");
  expect_user_error({"kernel", "matmul", "--set", "NOPE=1", "--print", "source"}, "NOPE");
  for (const std::string& id : test::kernel_devices()) {
    expect_user_error({"kernel", "reduce", "--const", "R=3,C=4,OFFSET=0,SR=4,SC=1", "--size", "src=1", "--device", id},
                      "reach elements 0 to 11 of src, which has 1");
  }
  expect_user_error({"kernel", "matmul", "--print", "poem"}, "unknown --print 'poem'");
  expect_user_error({"kernel", "matmul", "--type", "TA=f8", "--print", "source"}, "f8");
}

TEST(Kernel, PrintsForEachTarget) {
  EXPECT_TRUE(contains(run_heddle({"kernel", "matmul", "--print", "opencl"}).out, "__kernel"));
  EXPECT_TRUE(contains(run_heddle({"kernel", "matmul", "--print", "glsl"}).out, "#version"));
  EXPECT_TRUE(contains(run_heddle({"kernel", "matmul", "--print", "cuda"}).out, "__global__"));
  const Finished source = run_heddle(
      {"kernel", std::string(HEDDLE_SOURCE_DIR) + "/shaders/matmul.hk", "--set", "TM=32", "--print", "source"});
  EXPECT_EQ(source.exit_code, 0) << source.err;
  EXPECT_TRUE(contains(source.out, "TM"));
#ifdef HEDDLE_HAS_VULKAN
  const Finished spirv = run_heddle({"kernel", "matmul", "--print", "spirv"});
  EXPECT_EQ(spirv.exit_code, 0) << spirv.err;
  ASSERT_GE(spirv.out.size(), 4u);
  EXPECT_EQ(spirv.out.substr(0, 4), std::string("\x03\x02\x23\x07", 4));  // SPIR-V's magic number
#endif
}

TEST(Dump, EveryView) {
  for (const char* what : {"graph", "simplified", "groups", "source", "plan", "passes"}) {
    const Finished run = run_heddle({"dump", "mnist-mlp", "--what", what, "--device", "null:0", "--json"});
    ASSERT_EQ(run.exit_code, 0) << what << ": " << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json["what"], what);
    EXPECT_FALSE(json["text"].get<std::string>().empty()) << what;
  }
  EXPECT_TRUE(contains(run_heddle({"dump", "mnist-mlp", "--what", "graph", "--device", "null:0"}).out, "matmul"));
}

// The gradient of windows that lie side by side finds an element's window once: three remainders of the flat number and
// one for each side, not four for each of a window's elements. The flat number is taken apart twice, where a lane reads
// its elements ahead and where it computes them; a compiler does it once.
TEST(Dump, GradientsOfPoolsFindTheirWindowOnce) {
  std::istringstream lines(run_heddle({"dump", "mnist-cnn", "--what", "source", "--device", "null:0"}).out);
  std::vector<std::pair<std::string, int>> remainders;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("kernel ")) remainders.emplace_back(line, 0);
    if (contains(line, " % ")) ++remainders.back().second;
  }
  for (const auto& [name, count] : remainders) {
    if (name.starts_with("kernel ew_")) {
      EXPECT_LE(count, 8) << name;
    }
  }
  EXPECT_GT(remainders.size(), 20u);
}

}  // namespace
}  // namespace heddle
