// `heddle finetune` end to end on a small drawn model: lines, files, adapters in use again, runs that go on, bad input.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/parameter_options.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::expect_user_error;
using test::Finished;
using Words = std::vector<std::string>;

class FinetuneCommand : public test::CommandTest {
 protected:
  void SetUp() override {
    std::string words, lines;
    for (int i = 0; i < 24; ++i) {
      const std::string question = fmt::format("what follows {}?", i), answer = fmt::format("{} follows {}.", i + 1, i);
      words += question + answer;
      lines += Json{{"instruction", question}, {"output", answer}}.dump() + "\n";
    }
    data = write("facts.jsonl", lines);
    model = folder / "hf";
    json({"tokenize", "train", write("words.txt", words), "--vocabulary", "280", "--out", model});
    Generator generator{.seed = 3};
    const nn::Llama drawn(
        {.vocabulary = 280, .context = 128, .layers = 2, .heads = 2, .key_heads = 1, .width = 32, .hidden = 48},
        {.device = device("reference:0"), .generator = &generator});
    save_safetensors(model + "/model.safetensors", drawn.state_dict());
    write("hf/config.json", Json{{"model_type", "llama"},
                                 {"vocab_size", 280},
                                 {"max_position_embeddings", 128},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 2},
                                 {"num_key_value_heads", 1},
                                 {"hidden_size", 32},
                                 {"intermediate_size", 48},
                                 {"rms_norm_eps", 1e-5},
                                 {"tie_word_embeddings", false}}
                                .dump());
  }
  Words command(const std::string& out, Words more = {}) {
    Words all = {"finetune", model,         "--data",       data,   "--template", "plain",      "--length", "96",
                 "--batch",  "2",           "--lr",         "1e-2", "--steps",    "12",         "--rank",   "4",
                 "--device", "reference:0", "--validation", "0.1",  "--out",      folder / out, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<Json> lines(const Finished& run, const std::string& event) {
    std::vector<Json> found;
    size_t from = 0;
    while (from < run.out.size()) {
      const size_t end = run.out.find('\n', from);
      const Json line = Json::parse(run.out.substr(from, end - from), nullptr, false);
      if (!line.is_discarded() && line.value("event", "") == event) found.push_back(line);
      from = end == std::string::npos ? run.out.size() : end + 1;
    }
    return found;
  }
  std::vector<Json> trained(const std::string& out, Words more = {}) {
    const Finished run = test::run_heddle(command(out, std::move(more)));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<Json> steps = lines(run, "step"), done = lines(run, "done");
    if (done.size() != 1) throw std::runtime_error("no last line: " + run.out + run.err);
    steps.insert(steps.end(), done.begin(), done.end());
    return steps;
  }
  std::string said(Words more = {}) {
    Words all = {"generate",        model,      "--device", "reference:0", "--prompt",
                 "what follows 3?", "--tokens", "12",       "--greedy"};
    all.insert(all.end(), more.begin(), more.end());
    return json(all)["text"];
  }

  std::string data, model;
};

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

TEST_F(FinetuneCommand, ARunThatGoesOnRepeatsTheLosses) {
  const std::vector<Json> whole = trained("whole"), again = trained("again");
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(whole[i]["loss"], again[i]["loss"]) << i;
  trained("cut", {"--limit-steps", "5", "--checkpoint-every", "5"});
  const Finished rest = test::run_heddle({"resume", folder / "cut", "--limit-steps", "0", "--json"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  const std::vector<Json> steps = lines(rest, "step");
  ASSERT_EQ(steps.size(), 7u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(steps[i]["loss"], whole[i + 5]["loss"]) << i;
}

TEST_F(FinetuneCommand, TextsAreData) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("{} follows {}. ", i % 7 + 1, i % 7);
  data = write("book.txt", text);
  const Json done = trained("book").back();
  EXPECT_LT(done["validation_loss"].get<double>(), done["validation_loss_before"].get<double>() - 0.1);
}

TEST_F(FinetuneCommand, BadLinesAreLeftOutWhereThatIsAskedFor) {
  std::ofstream(data, std::ios::app) << "{broken\n";
  expect_user_error(command("bad"), "line 25");
  const Finished run = test::run_heddle(command("skipped", {"--skip-bad"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "line 25")) << run.err;
}

TEST_F(FinetuneCommand, PreviewShowsWhatIsSeen) {
  const Finished run = test::run_heddle(command("none", {"--preview", "2"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "what follows")) << run.out;
  EXPECT_FALSE(fs::exists(folder / "none"));
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
  refused({"--method", "qlora", "--json"}, "only blocks of a GGUF file stay packed");
  refused({"--targets", "*.nothing", "--json"}, "fits '*.nothing'");
  expect_user_error({"finetune", folder / "nowhere", "--data", data}, "neither a GGUF file");
}

TEST_F(FinetuneCommand, MergedModelsSayTheSame) {
  trained("run");
  const std::string adapter = folder / "run/adapter", hf = folder / "merged", gguf = folder / "merged.gguf";
  const std::string wanted = said({"--adapter", adapter});
  const auto exported = [&](const std::string& out, Words more) {
    more.insert(more.begin(), {"export", model, "--adapter", adapter, "-o", out, "--device", "reference:0"});
    return json(more);
  };
  EXPECT_EQ(exported(hf, {})["tensors"], (Json{{"F32", 21}}));
  EXPECT_EQ(json({"generate", hf, "--device", "reference:0", "--prompt", "what follows 3?", "--tokens", "12",
                  "--greedy"})["text"],
            wanted);
  // The tokenizer is this library's own, which no GGUF file names.
  expect_user_error({"export", model, "-o", gguf, "--type", "f32"}, "save a folder instead");
  EXPECT_FALSE(fs::exists(gguf));
  test::TinyLlamaFile(GgmlType::q4_1).write(gguf);
  const std::string half = folder / "half.gguf";
  EXPECT_EQ(json({"export", gguf, "-o", half, "--type", "f16", "--device", "reference:0"})["tensors"],
            (Json{{"F32", 5}, {"F16", 15}}));
  expect_user_error({"export", model, "-o", hf}, "is no empty folder");
  expect_user_error({"export", model, "-o", gguf, "--type", "q5_k"}, "--type q5_k is none of f32");
  expect_user_error({"export", model, "-o", folder / "m.onnx"}, "a .gguf file or a folder");
  expect_user_error({"export", model, "-o", folder / "new", "--type", "q4_0"}, "f32, f16 or bf16");
  expect_user_error({"export", gguf, "-o", folder / "new"}, "is written as a .gguf file");
  expect_user_error({"export", gguf, "-o", gguf}, "is the model itself");
  expect_user_error({"export", "mlp", "-o", "m.onnx", "--adapter", adapter}, "--adapter and --type are for");
}

}  // namespace
}  // namespace heddle
