// `heddle finetune` on a small drawn model, a folder of Hugging Face with a tokenizer of its own, and 24 instructions.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/parameter_options.h"
#include "tests/cli/command_test.h"

namespace heddle::test {

class FinetuneCommand : public CommandTest {
 protected:
  using Json = nlohmann::json;
  using Words = std::vector<std::string>;

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
    write_model(280);
  }
  // The model with so many tokens, and with the value that its norms have.
  void write_model(int64_t vocabulary, const std::string& family = "llama", int64_t width = 32, double norms = 1,
                   int64_t hidden = 48) {
    Generator generator{.seed = 3};
    const nn::Llama drawn({.vocabulary = vocabulary,
                           .context = context,
                           .layers = 2,
                           .heads = 2,
                           .key_heads = 1,
                           .width = width,
                           .hidden = hidden},
                          {.device = device("reference:0"), .generator = &generator});
    for (auto& [name, p] : drawn.state_dict()) {
      if (p.rank() == 1) Tensor(p).assign(full(p.shape(), norms, DType::f32, &p.device()));
    }
    save_safetensors(model + "/model.safetensors", drawn.state_dict());
    const Json config{
        {"model_type", family},        {"vocab_size", vocabulary},    {"max_position_embeddings", context},
        {"num_hidden_layers", 2},      {"num_attention_heads", 2},    {"num_key_value_heads", 1},
        {"hidden_size", width},        {"intermediate_size", hidden}, {"rms_norm_eps", 1e-5},
        {"tie_word_embeddings", false}};
    write(fs::path(model).filename().string() + "/config.json", config.dump());
  }
  Words command(const std::string& out, Words more = {}) {
    Words all = {"finetune", model,         "--data",       data,   "--template", "plain",      "--length", length,
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
    const Finished run = run_heddle(command(out, std::move(more)));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<Json> steps = lines(run, "step"), done = lines(run, "done");
    if (done.size() != 1) throw std::runtime_error("no last line: " + run.out + run.err);
    steps.insert(steps.end(), done.begin(), done.end());
    return steps;
  }
  // A run of five steps that goes on gives the losses of the whole one, which has twelve.
  void expect_repeated(const std::vector<Json>& whole, Words how = {}) {
    how.insert(how.end(), {"--limit-steps", "5", "--checkpoint-every", "5"});
    trained("cut", how);
    const Finished rest = run_heddle({"resume", folder / "cut", "--limit-steps", "0", "--json"});
    ASSERT_EQ(rest.exit_code, 0) << rest.err;
    const std::vector<Json> steps = lines(rest, "step");
    ASSERT_EQ(steps.size(), 7u);
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(steps[i]["loss"], whole[i + 5]["loss"]) << i;
  }
  std::string said(Words more = {}) {
    Words all = {"generate",        model,      "--device", "reference:0", "--prompt",
                 "what follows 3?", "--tokens", "12",       "--greedy"};
    all.insert(all.end(), more.begin(), more.end());
    return json(all)["text"];
  }

  std::string data, model, length = "96";
  int64_t context = 128;  // of models that are written
};

}  // namespace heddle::test
