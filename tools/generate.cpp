// heddle generate
#include "heddle/nn/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/device/context.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/data/unicode.h"
#include "heddle/io/read_file.h"
#include "heddle/nn/language_model.h"
#include "heddle/nn/lora_files.h"
#include "heddle/nn/models/llama_digest.h"
#include "heddle/train/model_file.h"
#include "heddle/train/recipes/base_model.h"
#include "tools/cli.h"
#include "tools/generate_scores.h"
#include "tools/interrupt.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

struct GenerateFlags {
  std::string model, adapter, tokenizer, prompt_file, precision, logits, device;
  std::optional<std::string> prompt;
  nn::GenerateOptions how = {.tokens = 200, .temperature = 0.8};
  std::vector<std::string> stop;
  int64_t beams = 1, repeat = 1, window = 0;
  double length_penalty = 1;
  bool greedy = false, no_cache = false, json = false, round_inputs = false;
};

struct LoadedModel {
  nn::LanguageModel model;
  data::TokenizerPtr tokenizer;
  std::vector<int32_t> before = {};  // tokens in front of a text
  std::vector<int32_t> ends = {};    // each of which ends one
  std::optional<nn::Lora> adapters = {};
};

// Blocks of a GGUF file stay packed and a folder's weights keep their precision, unless one is asked for. The base is
// recognised before its norms are rounded.
LoadedModel load_base(const GenerateFlags& o, DeviceContext& device) {
  const auto packed = o.round_inputs ? nn::GgufWeights::rounded : nn::GgufWeights::packed;
  train::BaseModel base =
      train::load_base_model(o.model, o.precision.empty() ? packed : nn::GgufWeights::unpacked, device, o.tokenizer);
  LoadedModel loaded{nn::LanguageModel(base.network), base.tokenizer, base.before, base.ends};
  const std::string digest = o.adapter.empty() ? "" : nn::digest_of(*base.network);
  if (!o.precision.empty()) base.network->to(parse_dtype(o.precision));
  if (!o.adapter.empty()) loaded.adapters.emplace(nn::load_peft(o.adapter, *base.network, digest)).eval();
  return loaded;
}

LoadedModel load(const GenerateFlags& o, DeviceContext& device) {
  if (o.round_inputs && fs::path(o.model).extension() != ".gguf")
    throw ValueError("[generate] --round-inputs is about packed blocks: it needs a GGUF file");
  if (train::is_base_model(o.model)) return load_base(o, device);
  if (!o.adapter.empty())
    throw ValueError("[generate] --adapter stands beside a GGUF file or a folder of Hugging Face");
  const train::ModelFile file = train::read_model_file(o.model, device);
  const auto description = file.metadata.find("model");
  if (description == file.metadata.end())
    throw IoError(fmt::format("[generate] {}: no language model; heddle train char-gpt makes one", file.path));
  LoadedModel loaded{nn::LanguageModel(description->second, device), o.tokenizer.empty()
                                                                         ? data::tokenizer_of(file.metadata, file.path)
                                                                         : data::load_tokenizer(o.tokenizer)};
  loaded.before = loaded.tokenizer->ends().before;
  if (const auto end = loaded.tokenizer->ends().end) loaded.ends.push_back(*end);
  data::check_vocabulary(*loaded.tokenizer, loaded.model.vocabulary());
  loaded.model.module().load_state_dict(file.state);
  loaded.model.module().to(parse_dtype(o.precision.empty() ? file.config.training.precision : o.precision));
  return loaded;
}

// What the text begins with, and its tokens.
struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
};

Prompt prompt_of(const GenerateFlags& o, const LoadedModel& loaded) {
  const data::Tokenizer& tokenizer = *loaded.tokenizer;
  std::vector<int32_t> tokens = loaded.before;
  if (o.prompt || !o.prompt_file.empty()) {
    const std::string text = o.prompt ? *o.prompt : read_text_file(o.prompt_file, "generate");
    const std::vector<int32_t> encoded = tokenizer.encode(text);
    tokens.insert(tokens.end(), encoded.begin(), encoded.end());
    return {text, tokens};
  }
  if (!tokens.empty()) return {"", tokens};
  if (const auto end = tokenizer.special().find("<|endoftext|>"); end != tokenizer.special().end())
    return {"", {end->second}};
  try {
    return {"\n", tokenizer.encode("\n")};
  } catch (const ValueError&) {
    throw ValueError("[generate] the model's vocabulary has no line break to begin with; give a --prompt");
  }
}

// Tokens that end the text: special ones by name, and single tokens by their text.
std::vector<int32_t> stop_tokens(const GenerateFlags& o, const LoadedModel& loaded) {
  const data::Tokenizer& tokenizer = *loaded.tokenizer;
  std::vector<int32_t> stops = loaded.ends;
  for (const std::string& text : o.stop) {
    const auto special = tokenizer.special().find(text);
    const std::vector<int32_t> tokens =
        special != tokenizer.special().end() ? std::vector{special->second} : tokenizer.encode(text);
    if (tokens.size() != 1)
      throw ValueError(fmt::format("[generate] --stop '{}' is {} tokens, expected one", text, tokens.size()));
    stops.push_back(tokens[0]);
  }
  return stops;
}

struct Made {
  std::vector<int32_t> tokens;
  double first_seconds = 0, seconds = 0;
};

// Draws tokens and prints them as they come.
Made draw(const GenerateFlags& o, nn::Decoder& decoder, const data::Tokenizer& tokenizer, const Prompt& prompt) {
  const InterruptScope on_interrupt;
  const auto start = std::chrono::steady_clock::now();
  Made made;
  data::StreamedText stream(tokenizer, prompt.text);
  made.tokens = nn::generate(decoder, prompt.tokens, o.how, [&](int32_t token) {
    if (made.first_seconds == 0) made.first_seconds = seconds_since(start);
    if (!o.json) print_out(stream.add(token));
    return !InterruptScope::caught();
  });
  made.seconds = seconds_since(start);
  if (!o.json) {
    print_out(stream.finish());
    fmt::print("\n");
  }
  return made;
}

Made search(const GenerateFlags& o, nn::Decoder& decoder, const data::Tokenizer& tokenizer, const Prompt& prompt) {
  const auto start = std::chrono::steady_clock::now();
  Made made;
  made.tokens = nn::beam_search(
                    decoder, prompt.tokens,
                    {.beams = o.beams, .tokens = o.how.tokens, .length_penalty = o.length_penalty, .stop = o.how.stop})
                    .at(0)
                    .tokens;
  made.first_seconds = made.seconds = seconds_since(start);
  if (!o.json) fmt::print("{}\n", data::valid_utf8(prompt.text + tokenizer.decode(made.tokens)));
  return made;
}

// The same again without a word: what generation takes once its kernels are there.
nlohmann::ordered_json repeated(const GenerateFlags& o, nn::Decoder& decoder, const Prompt& prompt) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (int64_t i = 1; i < o.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    double first = 0;
    const auto tokens = nn::generate(decoder, prompt.tokens, o.how, [&](int32_t) {
      if (first == 0) first = seconds_since(start);
      return !InterruptScope::caught();
    });
    runs.push_back({{"tokens", tokens.size()}, {"seconds", seconds_since(start)}, {"first_token_seconds", first}});
  }
  return runs;
}

void report(const GenerateFlags& o, const Made& made, const Prompt& prompt, nlohmann::ordered_json runs,
            const data::Tokenizer& tokenizer, const std::string& device) {
  const double speed = made.tokens.empty() ? 0 : static_cast<double>(made.tokens.size()) / made.seconds;
  if (o.json) {
    const nlohmann::ordered_json first = {
        {"tokens", made.tokens.size()}, {"seconds", made.seconds}, {"first_token_seconds", made.first_seconds}};
    runs.insert(runs.begin(), first);
    print_json({{"event", InterruptScope::caught() ? "interrupted" : "done"},
                {"text", data::valid_utf8(tokenizer.decode(made.tokens))},
                {"prompt_tokens", prompt.tokens.size()},
                {"tokens", made.tokens.size()},
                {"seconds", made.seconds},
                {"first_token_seconds", made.first_seconds},
                {"tokens_per_second", speed},
                {"runs", runs},
                {"device", device}});
  } else {
    print_error("{} tokens in {:.2f} s, {:.0f} tokens/s, on {}\n", made.tokens.size(), made.seconds, speed, device);
  }
}

// Whether that was all that was asked for.
bool score(const GenerateFlags& o, const LoadedModel& loaded, const Prompt& prompt, DeviceContext& device) {
  const auto first = std::span(prompt.tokens).first(std::min(prompt.tokens.size(), static_cast<size_t>(o.how.tokens)));
  if (o.window > 0) print_perplexity(loaded.model.module(), first, o.window, o.json, device);
  if (!o.logits.empty()) write_logits(loaded.model.module(), first, o.logits, o.json, device);
  return o.window > 0 || !o.logits.empty();
}

// Of a cache that holds the prompt and all that follows, in steps, so that runs share their kernels.
int64_t positions(size_t prompt, int64_t tokens) {
  constexpr int64_t step = 256, most = int64_t{1} << 31;
  return round_up(static_cast<int64_t>(prompt) + std::min(tokens, most), step);
}

int run(GenerateFlags o) {
  DeviceContext& device = open_device(o.device, true);
  const LoadedModel loaded = load(o, device);
  const data::Tokenizer& tokenizer = *loaded.tokenizer;
  const Prompt prompt = prompt_of(o, loaded);
  if (score(o, loaded, prompt, device)) return 0;
  o.how.stop = stop_tokens(o, loaded);
  if (o.greedy) o.how.temperature = 0;
  const auto decoder = loaded.model.decoder(
      {.batch = o.beams, .cache = !o.no_cache, .context = positions(prompt.tokens.size(), o.how.tokens)});
  const size_t read = nn::readable(*decoder, prompt.tokens).size();
  if (read < prompt.tokens.size()) {
    print_error("heddle: the prompt has {} tokens, the model's context is {}: only the last {} are read\n",
                prompt.tokens.size(), decoder->context(), read);
  }
  const Made made = o.beams > 1 ? search(o, *decoder, tokenizer, prompt) : draw(o, *decoder, tokenizer, prompt);
  report(o, made, prompt, repeated(o, *decoder, prompt), tokenizer, device.id());
  return InterruptScope::exit_code();
}

}  // namespace

void add_generate(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("generate", "Let a trained language model write");
  auto options = std::make_shared<GenerateFlags>();
  GenerateFlags& o = *options;
  command
      ->add_option("model", o.model,
                   "A run's folder, or its model.safetensors, of a language model (heddle train char-gpt); a folder of "
                   "Hugging Face (config.json, model.safetensors, tokenizer.json) of a Llama, Mistral, Qwen, Phi 3 or "
                   "Gemma; or a GGUF file (.gguf) of one, with its tokenizer")
      ->required();
  command->add_option("--adapter", o.adapter, "Folder of PEFT with adapters of the model (heddle finetune)");
  command->add_option("--prompt", o.prompt,
                      "What it goes on with; default: <|endoftext|> where the tokenizer has it, else a line break");
  command->add_option("--prompt-file", o.prompt_file, "The same from a file")->excludes("--prompt");
  command
      ->add_option(
          "--tokens", o.how.tokens,
          "At most so many. Where the model's context is full, its last half is read again and the text goes on")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--greedy", o.greedy, "The most likely token each time; as --temperature 0");
  command->add_option("--temperature", o.how.temperature, "Below 1 the likely become likelier")->capture_default_str();
  command->add_option("--top-k", o.how.top_k, "Only the k most likely tokens; 0: all")->capture_default_str();
  command->add_option("--top-p", o.how.top_p, "Only the most likely tokens that together have this probability")
      ->capture_default_str();
  command->add_option("--seed", o.how.seed, "The same text again")->capture_default_str();
  command->add_option("--beams", o.beams, "Search the likeliest text with so many beams; above 1 nothing is drawn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--length-penalty", o.length_penalty, "Of beams: log-probability / length^x is compared")
      ->capture_default_str();
  command->add_option("--stop", o.stop, "A token that ends the text; may be given several times");
  command
      ->add_option("--precision", o.precision,
                   "Weights and cache in f32, f16 or bf16; default: what the model was trained in, of a folder of "
                   "Hugging Face what its files have, of a GGUF file its packed blocks")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command
      ->add_flag("--round-inputs", o.round_inputs,
                 "Of a GGUF file: what is multiplied with packed blocks is rounded to 8 bits first, as llama.cpp does; "
                 "for its tokens, where they differ")
      ->excludes("--precision");
  command->add_option("--repeat", o.repeat, "With --json: so many times in all, each with its times; without beams")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option(
          "--perplexity", o.window,
          "Nothing is written: of the prompt's first --tokens tokens, how likely each is given those before it "
          "in windows of so many")
      ->check(CLI::Range(2, 1 << 20));
  command
      ->add_option("--logits", o.logits,
                   "Nothing is written: the logits of the prompt's first --tokens tokens into this .npy file, (tokens, "
                   "vocabulary) in f32")
      ->excludes("--perplexity");
  command->add_option("--tokenizer", o.tokenizer, "Instead of the one in the model file");
  command->add_flag("--no-cache", o.no_cache, "Compute all earlier positions again for each token");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer(
      "Ctrl-C ends the text with exit code 130, SIGTERM with 143; a second one of either ends at once.\nExample:\n  "
      "heddle generate runs/char-gpt --prompt 'ROMEO:' --temperature 0.8 --top-k 40");
  command->callback([options, &cli] { cli.exit_code = run(*options); });
}

}  // namespace heddle::tools
