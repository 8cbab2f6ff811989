// `heddle plan finetune`: what is predicted against what runs hold, what fits which card, and what a run chooses by
// itself.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/finetune_fixture.h"
#include "tests/cli/user_error.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"
#include "tests/support/packed_blocks.h"
#include "tests/support/sparse_llama.h"

namespace heddle {
namespace {

using test::contains;
using test::expect_user_error;
using test::FinetuneCommand;
using test::Finished;

class PlanFinetune : public FinetuneCommand {
 protected:
  Json planned(const std::string& of, const std::string& device, Words more) {
    Words all = {"plan", "finetune", of, "--device", device};
    all.insert(all.end(), more.begin(), more.end());
    return json(all);
  }
  Finished run_on(const std::string& device, const std::string& out, const Words& more) {
    Words all = command(out, more);
    *(std::ranges::find(all, "--device") + 1) = device;
    *(std::ranges::find(all, "--batch") + 1) = "16";  // its steps need more than an evaluation
    return test::run_heddle(all);
  }
  // Its peak, which its steps make and not its evaluations, is within a twentieth of what three steps held.
  double expect_predicted(const std::string& device, const std::string& of, const Words& how) {
    SCOPED_TRACE(device + " " + of + " " + how.back());
    Words shape = {"--length", "96", "--batch", "16", "--rank", "4", "--no-pack"};
    shape.insert(shape.end(), how.begin(), how.end());
    const Json plan = planned(of, device, shape);
    const double predicted = plan["choices"].at(0)["peak"];
    std::string text;  // whose rows are full, as the plan's are: short ones are cut
    for (int i = 0; i < 900; ++i) text += fmt::format("{} follows {}. ", i + 1, i);
    Words run = {"finetune", of,
                 "--data",   write("long.txt", text),
                 "--device", device,
                 "--steps",  "3",
                 "--out",    folder / "run",
                 "--json",   "--validation",
                 "0.3",      "--eval-every",
                 "3"};
    run.insert(run.end(), shape.begin(), shape.end());
    const Finished finished = test::run_heddle(run);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    const double measured = lines(finished, "done").at(0)["peak_device_bytes"];
    EXPECT_NEAR(predicted / measured, 1, 0.05) << predicted << ", and held were " << measured;
    std::filesystem::remove_all(folder.path() + "/run");
    return predicted;
  }
  std::string config_of(const std::string& run) {
    std::ostringstream text;
    text << std::ifstream(folder / (run + "/config.toml")).rdbuf();
    return text.str();
  }
};

TEST_F(PlanFinetune, PredictedPeaksAreThoseOfRuns) {
  const std::string packed = folder / "tiny.gguf";
  test::TinyLlamaFile(GgmlType::q8_0).write(packed);
  for (const std::string& device : test::kernel_devices()) {
    expect_predicted(device, model, {"--recompute"});
    if (tests::takes_case(device, "peaks", 1))
      expect_predicted(device, packed, {"--method", "qlora", "--no-recompute"});
    if (tests::takes_case(device, "peaks", 2)) expect_predicted(device, model, {"--offload"});
  }
}

TEST_F(PlanFinetune, PredictsBlocksOfAFolderATeacherAndSmallStates) {
  write_model(280, "llama", 64, 1, 128);
  const std::vector<std::string> devices = test::kernel_devices();
  if (devices.empty()) GTEST_SKIP() << "no device with memory of its own";
  const std::string& device = devices.front();
  expect_predicted(device, model, {"--method", "qlora", "--quantise", "nf4", "--recompute"});
  expect_predicted(device, model, {"--objective", "distil", "--teacher", model, "--recompute"});
  Words full = {"--method", "full", "--optimizer-states", "8bit", "--no-recompute"};
  const double small = expect_predicted(device, model, full);
  full[3] = "f32";
  full.insert(full.end(), {"--length", "96", "--batch", "16", "--no-pack"});
  EXPECT_LT(small, planned(model, device, full)["choices"].at(0)["peak"].get<double>());
}

TEST_F(PlanFinetune, AFolderIsAlsoLookedAtInBlocks) {
  const Words all = {"--length", "96", "--memory", "8GiB"};
  const Json odd = planned(model, "null:0", all);  // rows of 32
  ASSERT_EQ(odd["choices"].size(), 3u);
  EXPECT_TRUE(contains(odd["choices"][1].value("refusal", ""), "no whole blocks of 64 in NF4")) << odd;
  EXPECT_EQ(odd["best"], 0);
  write_model(280, "llama", 64, 1, 128);
  const Json whole = planned(model, "null:0", all);
  const Json& packed = whole["choices"][1];
  EXPECT_EQ(packed["quantise"], "nf4");
  EXPECT_LT(packed["weights"].get<int64_t>(), whole["choices"][0]["weights"].get<int64_t>());
  expect_user_error({"plan", "finetune", model, "--device", "null:0", "--method", "qlora"}, "--quantise nf4");
}

// Nothing of the 3.8 GB is on the disk: only the front is read.
TEST_F(PlanFinetune, SevenBillionParametersFitEightGibibytes) {
  const std::string large = folder / "7b.gguf";
  test::write_sparse_llama(large, test::llama_7b(), GgmlType::q4_k);
  const Words shape = {"--length", "1024", "--rank", "16", "--memory", "8GiB"};
  const Json plan = planned(large, "null:0", shape);
  const Json& best = plan["choices"][plan["best"].get<size_t>()];
  EXPECT_EQ(best["method"], "qlora");
  EXPECT_EQ(best["batch"].get<int64_t>() * best["accumulate"].get<int64_t>(), 4);
  EXPECT_LE(best["peak"].get<double>(), 0.9 * 8 * 0x1p30);
  // All that is packed, at 4.5 bits.
  EXPECT_NEAR(best["weights"].get<double>(), 6738415616 * 4.5 / 8, 0.002 * 6738415616);
  EXPECT_TRUE(contains(plan["command"].get<std::string>(), "--method qlora")) << plan["command"];
  for (const Json& choice : plan["choices"]) {
    if (choice["method"] == "lora") EXPECT_FALSE(choice["fits"].get<bool>()) << choice;
  }
}

TEST_F(PlanFinetune, SevenBillionParametersFitSixWithoutAccumulation) {
  const std::string large = folder / "7b.gguf";
  test::write_sparse_llama(large, test::llama_7b(), GgmlType::q4_k);
  const Json plan = planned(
      large, "null:0",
      {"--length", "1024", "--rank", "16", "--memory", "6GiB", "--method", "qlora", "--recompute", "--batch", "1"});
  EXPECT_EQ(plan["best"], 0);
  EXPECT_LE(plan["choices"][0]["peak"].get<double>(), 0.9 * 6 * 0x1p30);
}

TEST_F(PlanFinetune, WhatDoesNotFitSaysHowMuchIsMissing) {
  const std::string large = folder / "7b.gguf";
  test::write_sparse_llama(large, test::llama_7b(), GgmlType::q4_k);
  const Words asked = {"plan", "finetune", large, "--device", "null:0", "--length", "1024", "--memory", "3GiB"};
  const Finished run = test::run_heddle(asked);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(contains(run.out, "> 3.53 GiB")) << run.out;
  EXPECT_TRUE(contains(run.err, "at least 3.53 GiB are needed and a run may hold 2.70 GiB")) << run.err;
  expect_user_error({"plan", "finetune", large, "--device", "null:0", "--memory", "much"}, "--memory");
  expect_user_error({"plan", "finetune", large, "--device", "null:0", "--method", "magic"}, "lora, qlora, dora, full");
  expect_user_error({"plan", "finetune", large, "--device", "reference:0"}, "takes no kernels");
  expect_user_error({"plan", "finetune", folder / "nowhere.gguf", "--device", "null:0"}, "nowhere.gguf");
  expect_user_error({"plan"}, "finetune MODEL");
}

TEST_F(PlanFinetune, ARunTakesWhatFitsAndGoesOnWithIt) {
  const std::vector<std::string> devices = test::kernel_devices();
  if (devices.empty()) GTEST_SKIP() << "no device with memory of its own";
  const std::string& device = devices.front();
  const Json plan =
      planned(model, device, {"--length", "96", "--batch", "16", "--rank", "4", "--no-pack", "--method", "lora"});
  ASSERT_EQ(plan["choices"].size(), 2u);
  const int64_t kept = plan["choices"][0]["peak"], again = plan["choices"][1]["peak"];
  ASSERT_LT(again, kept);
  const Finished free = run_on(device, "free", {"--no-pack", "--limit-steps", "2"});
  EXPECT_TRUE(contains(free.err, "blocks keep what they compute")) << free.err;
  EXPECT_TRUE(contains(config_of("free"), "recompute = \"off\"")) << config_of("free");
  const std::string between = std::to_string((kept + again) / 2);
  const Finished tight = run_on(device, "tight", {"--no-pack", "--limit-steps", "2", "--memory-budget", between});
  ASSERT_EQ(tight.exit_code, 0) << tight.err;
  EXPECT_TRUE(contains(tight.err, "blocks are computed again")) << tight.err;
  EXPECT_TRUE(contains(config_of("tight"), "recompute = \"on\""));
  // What the run began with stands in its folder, whatever would be chosen now.
  const Finished on =
      test::run_heddle({"resume", folder / "tight", "--limit-steps", "3", "--memory-budget", "0", "--json"});
  ASSERT_EQ(on.exit_code, 0) << on.err;
  EXPECT_TRUE(contains(config_of("tight"), "recompute = \"on\""));
  const Finished whole = run_on(device, "whole", {"--no-pack", "--limit-steps", "3", "--memory-budget", between});
  EXPECT_EQ(lines(on, "step").at(0)["loss"], lines(whole, "step").at(2)["loss"]);
}

}  // namespace
}  // namespace heddle
