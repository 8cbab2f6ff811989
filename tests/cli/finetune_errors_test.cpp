// Bad input of `heddle finetune`, and of `heddle generate` with its adapters: one line that says what and where.
#include <algorithm>
#include <fstream>

#include "tests/cli/finetune_fixture.h"
#include "tests/cli/user_error.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using test::contains;
using test::expect_user_error;
using test::FinetuneCommand;
using test::Finished;

TEST_F(FinetuneCommand, BadLinesAreLeftOutWhereThatIsAskedFor) {
  std::ofstream(data, std::ios::app) << "{broken\n";
  expect_user_error(command("bad"), "line 25");
  const Finished run = test::run_heddle(command("skipped", {"--skip-bad"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "line 25")) << run.err;
}

TEST_F(FinetuneCommand, BadInputIsOneLine) {
  const auto refused = [&](Words more, const std::string& text) {
    Words all = command("bad", std::move(more));
    all.pop_back();
    expect_user_error(all, text);
    EXPECT_FALSE(fs::exists(folder / "bad"));
  };
  const auto last_wins = [&](const std::string& flag, const std::string& value, const std::string& text) {
    Words all = command("bad");
    *(std::ranges::find(all, flag) + 1) = value;
    expect_user_error(all, text);
  };
  last_wins("--template", "nonsense", "chatml");
  last_wins("--length", "1", "[finetune] --length 1");
  last_wins("--length", "4096", "the model reads 2 to 128 tokens");
  last_wins("--data", folder / "none.jsonl", "none.jsonl");
  last_wins("--rank", "0", "[Lora]");
  last_wins("--data", write("broken.jsonl", "{\"instruction\": \"a\"\n"), "broken.jsonl");
  refused({"--method", "magic", "--json"}, "lora, qlora, dora, full");
  refused({"--method", "qlora", "--json"}, "is in floating point: --method qlora packs it with --quantise nf4");
  refused({"--method", "qlora", "--quantise", "f16", "--json"}, "[finetune] --quantise f16 is none of nf4, q4_0");
  refused({"--quantise", "nf4", "--json"}, "[finetune] --quantise is for --method qlora; it is lora");
  refused({"--method", "qlora", "--quantise", "q8_0", "--json"}, "mlp.down_proj.weight have 48 elements");
  refused({"--optimizer-states", "4bit", "--json"}, "expected one of f32, 8bit");
  refused({"--optimizer-states", "8bit", "--optimizer", "lamb", "--json"},
          "--optimizer-states (optimizer.states) is \"8bit\", but only sgd, adam, adamw and lion use it");
  refused({"--targets", "*.nothing", "--json"}, "fits '*.nothing'");
  expect_user_error({"finetune", folder / "nowhere", "--data", data}, "neither a GGUF file");
}

TEST_F(FinetuneCommand, EmptyLinesAreRefusedWithTheirNumber) {
  std::ofstream(data, std::ios::app) << "\n{\"instruction\": \"a\", \"output\": \"b\"}\n";
  expect_user_error(command("bad"), "line 25");
}

TEST_F(FinetuneCommand, UnknownFamiliesAreNamed) {
  write_model(280, "qwen9");
  expect_user_error(command("bad"), "the model_type is 'qwen9'");
}

TEST_F(FinetuneCommand, ATemplateThatDoesNotFitIsRefused) {
  Words all = command("bad");
  *(std::ranges::find(all, "--template") + 1) = "chatml";
  expect_user_error(all, "[chat template] chatml does not fit");
}

TEST_F(FinetuneCommand, LongExamplesAreCounted) {
  Words all = command("cut");
  *(std::ranges::find(all, "--length") + 1) = "34";
  all.insert(all.end(), {"--drop-long"});
  std::ofstream(data, std::ios::app) << Json{{"instruction", std::string(200, 'x')}, {"output", "b"}}.dump() << "\n"
                                     << Json{{"instruction", std::string(90, 'y')}, {"output", "b"}}.dump() << "\n";
  const Finished run = test::run_heddle(all);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "longer than 34 tokens: 0 cut")) << run.err;
}

TEST_F(FinetuneCommand, ATokenizerMustFitTheVocabulary) {
  write_model(270);
  expect_user_error(command("bad"), "270");
}

TEST_F(FinetuneCommand, ABudgetBelowTheLeastSaysHowMuchIsMissing) {
  const std::vector<std::string> devices = test::kernel_devices();
  if (devices.empty()) GTEST_SKIP() << "no device with memory of its own";
  Words all = command("bad", {"--memory-budget", "1KiB"});
  *(std::ranges::find(all, "--device") + 1) = devices.front();
  const Finished run = test::run_heddle(all);
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(contains(run.err, "--memory-budget allows 1 KiB")) << run.err;
  EXPECT_TRUE(contains(run.err, "are missing")) << run.err;
  EXPECT_TRUE(contains(run.err, "a smaller batch")) << run.err;
}

TEST_F(FinetuneCommand, NansKeepTheLastGoodAdapter) {
  // The first step's rate is nothing, the second's far too high.
  Words all = command("nan", {"--checkpoint-every", "1", "--method", "full", "--optimizer", "sgd"});
  *(std::ranges::find(all, "--lr") + 1) = "1e30";
  const Finished run = test::run_heddle(all);
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(contains(run.err, "at step 2, first in the output of model.layers.0.")) << run.err;
  EXPECT_TRUE(contains(run.err, "last good checkpoint is ")) << run.err;
  EXPECT_TRUE(fs::exists(folder / "nan/checkpoints/step-00000001.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "nan/checkpoints/step-00000002.safetensors"));
}

// The losses of adapters stay finite where their gradients have no norm any more.
TEST_F(FinetuneCommand, GradientsWithoutANormEndTheRunToo) {
  Words all = command("norm", {"--checkpoint-every", "1"});
  *(std::ranges::find(all, "--lr") + 1) = "1e30";
  const Finished run = test::run_heddle(all);
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(contains(run.err, " became ")) << run.err;
  EXPECT_TRUE(contains(run.err, ", first in the ")) << run.err;
  EXPECT_TRUE(contains(run.err, "last good checkpoint is ")) << run.err;
  EXPECT_FALSE(fs::exists(folder / "norm/adapter.gguf"));
}

TEST_F(FinetuneCommand, AnAdapterOfAnotherModelIsRefused) {
  trained("run", {"--limit-steps", "2"});
  write_model(280, "llama", 48);
  const std::string adapter = folder / "run/adapter", why = "adapter_model.safetensors";
  expect_user_error({"generate", model, "--device", "reference:0", "--adapter", adapter, "--prompt", "a"}, why);
  expect_user_error({"chat", model, "--device", "reference:0", "--template", "plain", "--adapter", adapter}, why);
}

TEST_F(FinetuneCommand, AnAdapterOfAnotherModelOfItsShapesIsRefused) {
  trained("run", {"--limit-steps", "2"});
  const std::string adapter = folder / "run/adapter", half = folder / "half";
  const auto words = [&](const std::string& command, const std::string& of, Words more) {
    Words all = {command, of, "--device", "reference:0", "--adapter", adapter};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  json({"export", model, "--type", "bf16", "-o", half, "--device", "reference:0"});
  for (const std::string& same : {model, half}) {
    const Finished run = test::run_heddle(words("generate", same, {"--prompt", "a", "--tokens", "2"}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
  write_model(280, "llama", 32, 1.25);
  const std::string why = "it was trained beside another model (";
  expect_user_error(words("generate", model, {"--prompt", "a", "--precision", "f16"}), why);
  expect_user_error(words("chat", model, {"--template", "plain"}), why);
  expect_user_error(words("export", model, {"-o", folder / "merged"}), why);
  EXPECT_FALSE(fs::exists(folder / "merged"));
}

}  // namespace
}  // namespace heddle
