// heddle generate, as a user meets it.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/data/numpy.h"
#include "heddle/data/unicode.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/parameter_options.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::expect_user_error;
using test::Finished;
using test::run_heddle;

class GenerateCommand : public test::CommandTest {
 protected:
  // A run of one step on a small text.
  std::string train(const std::string& recipe, const std::vector<std::string>& more = {}) {
    std::string corpus;
    for (int i = 0; i < 40; ++i) corpus += "the weaver lifts the warp, größer ";
    const std::string text = write("corpus.txt", corpus), run = folder / recipe;
    std::vector<std::string> arguments = {"train",        recipe,
                                          "--data",       text,
                                          "--out",        run,
                                          "--device",     "reference:0",
                                          "--steps",      "1",
                                          "--batch",      "2",
                                          "--limit-test", "1",
                                          "--set",        "model.width=8",
                                          "--set",        "model.layers=1",
                                          "--set",        "model.context=16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished trained = run_heddle(arguments);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    return run;
  }
};

TEST_F(GenerateCommand, GoesOnWithWhatWasTrained) {
  const auto generate = [&](const std::string& run, std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", run, "--device", "reference:0", "--prompt", "the ", "--tokens", "10"});
    return json(more);
  };
  const std::string gpt = train("char-gpt"), lstm = train("char-lstm");
  const Json drawn = generate(gpt, {"--seed", "4", "--top-k", "5", "--top-p", "0.9"}),
             greedy = generate(gpt, {"--greedy"});
  EXPECT_EQ(drawn["tokens"], 10);
  EXPECT_EQ(generate(gpt, {"--seed", "4", "--top-k", "5", "--top-p", "0.9"})["text"], drawn["text"]);
  EXPECT_EQ(generate(gpt, {"--greedy", "--no-cache"})["text"], greedy["text"]);
  EXPECT_EQ(generate(gpt, {"--beams", "2"})["tokens"], 10);
  EXPECT_EQ(generate(lstm, {"--greedy"})["tokens"], 10);
  for (const std::string& run : {gpt, lstm}) {
    for (const char* precision : {"f16", "bf16"}) EXPECT_EQ(generate(run, {"--precision", precision})["tokens"], 10);
    for (const char* beams : {"1", "2"})
      EXPECT_EQ(json({"generate", run, "--device", "reference:0", "--prompt", "the ", "--tokens", "0", "--beams",
                      beams})["text"],
                "");
  }
  EXPECT_EQ(
      run_heddle({"generate", gpt, "--device", "reference:0", "--prompt", "the ", "--tokens", "10", "--greedy"}).out,
      "the " + greedy["text"].get<std::string>() + "\n");
  EXPECT_EQ(json({"tokenize", "info", "--tokenizer", gpt + "/model.safetensors"})["type"], "characters");
}

TEST_F(GenerateCommand, WritesWithAGgufFile) {
  const std::string file = folder / "tiny.gguf";
  test::TinyLlamaFile tiny(GgmlType::q4_1);
  tiny.write(file);
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"generate", file, "--device", "reference:0", "--prompt", "the 12", "--tokens", "6", "--greedy"});
    return json(more);
  };
  const Json packed = generate({});
  EXPECT_LE(packed["tokens"], 6);
  EXPECT_EQ(packed["prompt_tokens"], 4);  // the, space, 1, 2
  EXPECT_EQ(generate({"--no-cache"})["text"], packed["text"]);
  EXPECT_EQ(generate({"--precision", "f32"})["text"], packed["text"]);
  EXPECT_EQ(generate({"--repeat", "3"})["runs"].size(), 3u);
  const Json scored = generate({"--perplexity", "3"});
  EXPECT_EQ(scored["scored_tokens"], 2);  // one window of three, and a token by itself
  EXPECT_GT(scored["perplexity"], 1);
  const std::string logits = folder / "logits.npy";
  EXPECT_EQ(generate({"--logits", logits})["prompt"].size(), 4u);
  const data::Array written = data::read_npy(logits);
  ASSERT_EQ(written.shape, (Shape{4, 261}));
  // The losses of the two tokens of the first window, from these logits.
  double loss = 0;
  const std::vector<int32_t> tokens = generate({"--logits", logits})["prompt"];
  for (size_t i = 0; i < 2; ++i) {
    const auto row = written.as<float>().subspan(i * 261, 261);
    double sum = 0;
    for (const float value : row) sum += std::exp(static_cast<double>(value));
    loss += std::log(sum) - static_cast<double>(row[static_cast<size_t>(tokens[i + 1])]);
  }
  EXPECT_NEAR(std::exp(loss / 2), scored["perplexity"].get<double>(), 1e-4 * std::exp(loss / 2));
  expect_user_error({"generate", file, "--device", "reference:0", "--prompt", "the", "--logits", folder / "no/x.npy"},
                    "x.npy");
  expect_user_error({"generate", file, "--prompt", "", "--logits", logits}, "at least one token");

  tiny.texts["general.architecture"] = "gemma";
  tiny.write(file);
  expect_user_error({"generate", file, "--device", "reference:0"}, "the architecture is 'gemma'");
  tiny.texts["tokenizer.ggml.pre"] = "viking";
  tiny.write(file);
  expect_user_error({"generate", file, "--device", "reference:0"}, "cuts words by 'viking'");
  expect_user_error({"generate", folder / "none.gguf", "--device", "reference:0"}, "none.gguf");
}

// A drawn model beside a tokenizer of GPT-2's files.
TEST_F(GenerateCommand, WritesWithAFolderOfHuggingFace) {
  const std::string corpus = write("words.txt", "the weaver lifts the warp the weaver"), hf = folder / "hf";
  json({"tokenize", "train", corpus, "--vocabulary", "262", "--out", hf});
  Generator generator{.seed = 3};
  nn::Llama model(
      {.vocabulary = 262, .context = 32, .layers = 1, .heads = 2, .key_heads = 1, .width = 16, .hidden = 16},
      {.device = device("reference:0"), .generator = &generator});
  save_safetensors(hf + "/model.safetensors", model.state_dict());
  Json config = {{"model_type", "llama"},       {"vocab_size", 262},        {"max_position_embeddings", 32},
                 {"num_hidden_layers", 1},      {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                 {"hidden_size", 16},           {"intermediate_size", 16},  {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", false}};
  write("hf/config.json", config.dump());
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"generate", hf, "--device", "reference:0", "--prompt", "the w", "--tokens", "6", "--greedy"});
    return json(more);
  };
  const Json made = generate({});
  EXPECT_EQ(made["tokens"], 6);
  EXPECT_EQ(generate({"--no-cache"})["text"], made["text"]);
  EXPECT_EQ(generate({"--precision", "bf16"})["tokens"], 6);
  expect_user_error({"generate", hf, "--device", "reference:0", "--round-inputs"}, "it needs a GGUF file");
  config["model_type"] = "mixtral";
  write("hf/config.json", config.dump());
  expect_user_error({"generate", hf, "--device", "reference:0"},
                    "the model_type is 'mixtral' (it is a mixture of experts)");
}

TEST_F(GenerateCommand, RefusesInOneLine) {
  const std::string gpt = train("char-gpt"), lstm = train("char-lstm"), file = write("prompt.txt", "the");
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin() + 1, {"--device", "reference:0"});
    expect_user_error(arguments, why);
  };
  refused({"generate", gpt, "--prompt", "XYZ"}, "'X' (U+0058) at byte 0 is not among the");
  refused({"generate", gpt}, "no line break to begin with; give a --prompt");
  refused({"generate", gpt, "--prompt", ""}, "the prompt is empty");
  refused({"generate", gpt, "--prompt", "the", "--prompt-file", file}, "excludes");
  refused({"generate", gpt, "--prompt", "the", "--top-p", "2"}, "top_p is 2");
  refused({"generate", gpt, "--prompt", "the", "--precision", "f8"}, "--precision");
  refused({"generate", gpt, "--prompt", "the", "--stop", "er"}, "--stop 'er' is 2 tokens");
  refused({"generate", gpt, "--prompt", "the", "--beams", "2", "--tokens", "100"},
          "do not fit the model's context of 16");
  refused({"generate", lstm, "--prompt", "the", "--no-cache"}, "no cache to do without");
}

TEST_F(GenerateCommand, LongPromptsAreReadFromTheirEnd) {
  const std::string gpt = train("char-gpt"), end = "lifts the warp, ";  // 16 characters
  const auto generate = [&](const std::string& prompt) {
    return run_heddle(
        {"generate", gpt, "--device", "reference:0", "--prompt", prompt, "--tokens", "20", "--greedy", "--json"});
  };
  const Finished whole = generate("the weaver " + end), last = generate(end);
  EXPECT_EQ(Json::parse(whole.out)["text"], Json::parse(last.out)["text"]);
  EXPECT_NE(whole.err.find("the prompt has 27 tokens, the model's context is 16: only the last 16 are read"),
            std::string::npos)
      << whole.err;
  EXPECT_EQ(last.err, "");
}

// GPT-2's two files; an untrained model of bytes makes no UTF-8, the command does.
TEST_F(GenerateCommand, BytePairsAreShownAsUtf8) {
  const std::string corpus = write("words.txt", "größer größer weaver weaver weaver");
  json({"tokenize", "train", corpus, "--vocabulary", "262", "--out", folder / "bpe"});
  const std::string gpt2 = train("gpt2", {"--tokenizer", folder / "bpe", "--set", "model.heads=2"});
  const std::vector<std::string> command = {
      "generate", gpt2, "--device", "reference:0", "--tokens", "60", "--temperature", "3", "--seed", "2"};
  std::vector<std::string> as_json = command;
  as_json.push_back("--json");
  const Finished shown = run_heddle(command), told = run_heddle(as_json);
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(data::valid_utf8(shown.out), shown.out);
  EXPECT_NE(shown.out.find("\uFFFD"), std::string::npos);
  EXPECT_EQ(Json::parse(told.out)["text"].get<std::string>() + "\n",
            shown.out);  // behind <|endoftext|>, which is not shown
}

TEST_F(GenerateCommand, SignalsEndTheText) {
  const std::string model = train("char-gpt");
  for (const int signal : {SIGINT, SIGTERM}) {
    const Finished run =
        run_heddle({"generate", model, "--device", "reference:0", "--prompt", "weaver", "--tokens", "10000000"},
                   {.interrupt_after = "weaver", .signal = signal});
    EXPECT_EQ(run.exit_code, 128 + signal);
    EXPECT_EQ(run.out.back(), '\n');
    EXPECT_NE(run.err.find("tokens/s"), std::string::npos);
  }
}

}  // namespace
}  // namespace heddle
