// `heddle finetune` end to end on a small drawn model: lines, files, adapters in use again, runs that
// go on.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "heddle/core/base/path.h"
#include "tests/cli/finetune_fixture.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"
#include "tests/support/idx_files.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::Finished;

using test::FinetuneCommand;

TEST_F(FinetuneCommand, AdaptersLearnAndAreUsedAgain) {
  const std::vector<Json> run = trained("run");
  ASSERT_EQ(run.size(), 13u);
  EXPECT_EQ(run[0]["tokens"], 2 * 96);
  const Json& done = run.back();
  for (const char* key : {"loss", "validation_loss_before", "validation_loss", "tokens_per_second", "peak_device_bytes",
                          "trainable_parameters", "adapter", "device"})
    EXPECT_TRUE(done.contains(key)) << key;
  EXPECT_NEAR(done["validation_loss_before"].get<double>(), std::log(280.0), 0.3);
  EXPECT_LT(done["validation_loss"].get<double>(), done["validation_loss_before"].get<double>() - 0.1);
  // Rank 4 beside q and o (32, 32), k and v (16, 32), of two layers.
  EXPECT_EQ(done["trainable_parameters"], 2 * 4 * (2 * (32 + 32) + 2 * (16 + 32)));
  const std::string adapter = done["adapter"];
  EXPECT_TRUE(fs::exists(adapter + "/adapter_config.json"));
  EXPECT_TRUE(fs::exists(folder / "run/adapter.gguf"));
  EXPECT_NE(said({"--adapter", adapter}), said());
}

TEST_F(FinetuneCommand, EveryMethodLearns) {
  for (const Words& how : {Words{"--method", "dora"}, Words{"--rank-stabilised"}, Words{"--no-pack"},
                           Words{"--targets", "*.q_proj,lm_head"}, Words{"--adapter-dropout", "0.1"},
                           Words{"--method", "full", "--set", "optimizer.lr=2e-3"}}) {
    SCOPED_TRACE(how.back());
    const Json done = trained(fmt::format("run-{}", how.back().substr(0, 5)), how).back();
    EXPECT_LT(done["validation_loss"].get<double>(), done["validation_loss_before"].get<double>());
  }
}

// Beside a base whose matrices are packed on the way in: nearly the model that they were.
TEST_F(FinetuneCommand, AFloatingModelIsPackedForQlora) {
  write_model(280, "llama", 64, 1, 128);
  const Json plain = trained("plain").back();
  for (const auto& [type, near] : {std::pair{"q8_0", 1e-3}, std::pair{"nf4", 0.02}, std::pair{"Q4_0", 0.02}}) {
    SCOPED_TRACE(type);
    const Json done = trained(fmt::format("run-{}", type), {"--method", "qlora", "--quantise", type}).back();
    const double before = plain["validation_loss_before"], after = plain["validation_loss"];
    EXPECT_NE(done["validation_loss_before"].get<double>(), before);
    EXPECT_NEAR(done["validation_loss_before"].get<double>(), before, near * before);
    EXPECT_NEAR(done["validation_loss"].get<double>(), after, near * after + 0.01);
    EXPECT_EQ(done["trainable_parameters"], plain["trainable_parameters"]);
    EXPECT_NE(said({"--adapter", done["adapter"]}), said());  // beside the model as it was
  }
}

TEST_F(FinetuneCommand, StatesIn8BitsGoOnExactly) {
  const Words how{"--method", "full", "--set", "optimizer.lr=2e-3", "--optimizer-states", "8bit"};
  const std::vector<Json> whole = trained("whole", how);
  EXPECT_LT(whole.back()["validation_loss"].get<double>(), whole.back()["validation_loss_before"].get<double>() - 0.1);
  expect_repeated(whole, how);
  // A checkpoint goes on with the states that it has.
  Words other = command("cut", {"--method", "full", "--resume"});
  const Finished run = test::run_heddle(other);
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(contains(run.err, "was made with optimizer adamw of 8bit states, this run has adamw")) << run.err;
}

TEST_F(FinetuneCommand, ARunThatGoesOnRepeatsTheLosses) {
  const std::vector<Json> whole = trained("whole"), again = trained("again");
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(whole[i]["loss"], again[i]["loss"]) << i;
  expect_repeated(whole);
}

// HEDDLE_TEST_KILLS and HEDDLE_TEST_KILL_DEVICE for more moments, and elsewhere.
TEST_F(FinetuneCommand, KilledAtRandomMomentsItGoesOnExactly) {
  const char* kills = std::getenv("HEDDLE_TEST_KILLS");
  const char* where = std::getenv("HEDDLE_TEST_KILL_DEVICE");
  const int wanted = kills != nullptr ? std::atoi(kills) : 2;
  const auto arguments = [&](const std::string& out) {
    Words all = command(out, {"--adapter-dropout", "0.1", "--checkpoint-every", "3"});
    *(std::ranges::find(all, "--steps") + 1) = "24";
    if (where != nullptr) *(std::ranges::find(all, "--device") + 1) = where;
    return all;
  };
  const auto start = std::chrono::steady_clock::now();
  const Finished whole = test::run_heddle(arguments("whole"));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  std::map<int64_t, double> expected;
  for (const Json& step : lines(whole, "step")) expected[step["step"]] = step["loss"];
  ASSERT_EQ(expected.size(), 24u);
  const auto next = [&](const test::RunOptions& options) {
    Words all = arguments("killed");
    if (fs::exists(folder / "killed/config.toml"))
      all.push_back("--resume");
    else
      std::filesystem::remove_all(folder.path() + "/killed");
    return test::run_heddle(all, options);
  };
  std::mt19937 random(std::random_device{}());
  int killed = 0;
  for (int attempt = 0; killed < wanted && attempt < 10 * wanted; ++attempt) {
    std::uniform_int_distribution<int64_t> moment(took.count() / 10, took.count());
    const Finished run = next({.limit = std::chrono::milliseconds(moment(random))});
    killed += run.signal == SIGKILL ? 1 : 0;
    ASSERT_TRUE(run.signal == SIGKILL || run.exit_code == 0) << run.err;
    if (run.exit_code == 0)
      std::filesystem::remove_all(folder.path() + "/killed");  // it was faster: from the beginning
  }
  EXPECT_EQ(killed, wanted);
  const Finished last = next({});
  ASSERT_EQ(last.exit_code, 0) << last.err;
  std::ifstream metrics(folder / "killed/metrics.jsonl");
  std::set<int64_t> seen;
  for (std::string line; std::getline(metrics, line);) {
    const Json event = Json::parse(line);
    if (event["event"] != "step") continue;
    EXPECT_EQ(event["loss"].get<double>(), expected.at(event["step"])) << line;
    seen.insert(event["step"].get<int64_t>());
  }
  EXPECT_EQ(seen.size(), expected.size());
  for (const char* file : {"adapter/adapter_model.safetensors", "adapter.gguf"})
    EXPECT_EQ(test::read_bytes(folder.path() + "/killed/" + file), test::read_bytes(folder.path() + "/whole/" + file))
        << file;
}

TEST_F(FinetuneCommand, BlocksComputedAgainGiveTheSameLossesInLessMemory) {
  for (const std::string& device : test::value_devices()) {
    SCOPED_TRACE(device);
    const std::string name = device.substr(0, device.find(':'));
    const auto run = [&](const std::string& out, const Words& more) {
      Words all = command(out + name, {"--limit-steps", "3"});
      all.insert(all.end(), more.begin(), more.end());
      *(std::ranges::find(all, "--device") + 1) = device;
      const Finished finished = test::run_heddle(all);
      EXPECT_EQ(finished.exit_code, 0) << finished.err;
      std::vector<Json> steps = lines(finished, "step"), done = lines(finished, "done");
      steps.insert(steps.end(), done.begin(), done.end());
      return steps;
    };
    const std::vector<Json> kept = run("kept", {});
    ASSERT_EQ(kept.size(), 4u);
    for (const size_t way : {size_t{1}, size_t{2}}) {
      if (!tests::takes_case(device, "recompute", way)) continue;
      const std::vector<Json> other = way == 1 ? run("again", {"--recompute"}) : run("moved", {"--offload"});
      ASSERT_EQ(other.size(), 4u);
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(kept[i]["loss"], other[i]["loss"], 1e-6) << way << ", " << i;
      if (way == 2 || name == "reference") continue;  // which has no arena: its peak is that of the base
      EXPECT_LT(other[3]["peak_device_bytes"].get<int64_t>(), 0.8 * kept[3]["peak_device_bytes"].get<double>());
    }
  }
}

TEST_F(FinetuneCommand, TextsAreData) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("{} follows {}. ", i % 7 + 1, i % 7);
  data = write("book.txt", text);
  const Json done = trained("book").back();
  EXPECT_LT(done["validation_loss"].get<double>(), done["validation_loss_before"].get<double>() - 0.1);
}

TEST_F(FinetuneCommand, PreviewShowsWhatIsSeen) {
  const Finished run = test::run_heddle(command("none", {"--preview", "2"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "what follows")) << run.out;
  EXPECT_FALSE(fs::exists(folder / "none"));
}

}  // namespace
}  // namespace heddle
