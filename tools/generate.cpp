// heddle generate
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "core/base/error.h"
#include "core/base/seconds_since.h"
#include "data/tokenizer_file.h"
#include "data/unicode.h"
#include "io/read_file.h"
#include "nn/generate.h"
#include "nn/language_model.h"
#include "tools/cli.h"
#include "train/model_file.h"

namespace heddle::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, tokenizer, prompt = "\n", prompt_file, device;
  nn::GenerateOptions how = {.tokens = 200, .temperature = 0.8};
  std::vector<std::string> stop;
  int64_t beams = 1;
  double length_penalty = 1;
  bool greedy = false, no_cache = false, json = false;
};

struct LoadedModel {
  nn::LanguageModel model;
  data::TokenizerPtr tokenizer;
};

LoadedModel load(const Options& o, DeviceContext& device) {
  const train::ModelFile file = train::read_model_file(o.model, device);
  const auto description = file.metadata.find("model");
  if (description == file.metadata.end()) throw IoError(fmt::format("[generate] {}: no language model; heddle train char-gpt makes one", file.path));
  LoadedModel loaded{nn::LanguageModel(description->second, &device), o.tokenizer.empty() ? data::tokenizer_of(file.metadata, file.path) : data::load_tokenizer(o.tokenizer)};
  data::check_vocabulary(*loaded.tokenizer, loaded.model.vocabulary());
  loaded.model.module().load_state_dict(file.state);
  return loaded;
}

// Tokens that end the text: special ones by name, and single tokens by their text.
std::vector<int32_t> stop_tokens(const Options& o, const data::Tokenizer& tokenizer) {
  std::vector<int32_t> stops;
  for (const std::string& text : o.stop) {
    const auto special = tokenizer.special().find(text);
    const std::vector<int32_t> tokens = special != tokenizer.special().end() ? std::vector{special->second} : tokenizer.encode(text);
    if (tokens.size() != 1) throw ValueError(fmt::format("[generate] --stop '{}' is {} tokens, expected one", text, tokens.size()));
    stops.push_back(tokens[0]);
  }
  return stops;
}

// Prints the prompt with the first token, and tokens as they come: whole characters only, and nothing before there is something to say.
class Printer {
 public:
  Printer(const data::Tokenizer& tokenizer, std::string prompt) : tokenizer_(tokenizer), held_(std::move(prompt)) {}
  void add(int32_t token) {
    held_ += tokenizer_.text_of(token);
    print(data::whole_characters(held_));
  }
  void finish() {
    print(held_.size());
    fmt::print("\n");
  }

 private:
  void print(size_t bytes) {
    std::fwrite(held_.data(), 1, bytes, stdout);
    std::fflush(stdout);
    held_.erase(0, bytes);
  }
  const data::Tokenizer& tokenizer_;
  std::string held_;
};

void report(const Options& o, const std::string& text, size_t tokens, double seconds, const std::string& device) {
  if (o.json) {
    print_json({{"event", "done"}, {"text", text}, {"tokens", tokens}, {"seconds", seconds}, {"tokens_per_second", static_cast<double>(tokens) / seconds}, {"device", device}});
  } else {
    fmt::print(stderr, "{} tokens in {:.2f} s, {:.0f} tokens/s, on {}\n", tokens, seconds, static_cast<double>(tokens) / seconds, device);
  }
}

void run(Options o) {
  DeviceContext& device = open_device(o.device, true);
  const LoadedModel loaded = load(o, device);
  const data::Tokenizer& tokenizer = *loaded.tokenizer;
  const std::string prompt = o.prompt_file.empty() ? o.prompt : read_text_file(o.prompt_file, "generate");
  const std::vector<int32_t> tokens = tokenizer.encode(prompt);
  o.how.stop = stop_tokens(o, tokenizer);
  if (o.greedy) o.how.temperature = 0;
  const auto decoder = loaded.model.decoder(o.beams, !o.no_cache);
  const size_t read = nn::readable(*decoder, tokens).size();
  if (read < tokens.size()) fmt::print(stderr, "heddle: the prompt has {} tokens, the model's context is {}: only the last {} are read\n", tokens.size(), decoder->context(), read);

  const auto start = Clock::now();
  std::vector<int32_t> made;
  Printer printer(tokenizer, prompt);
  if (o.beams > 1) {
    made = nn::beam_search(*decoder, tokens, {.beams = o.beams, .tokens = o.how.tokens, .length_penalty = o.length_penalty, .stop = o.how.stop}).at(0).tokens;
    if (!o.json) fmt::print("{}{}\n", prompt, tokenizer.decode(made));
  } else {
    made = nn::generate(*decoder, tokens, o.how, [&](int32_t token) {
      if (!o.json) printer.add(token);
      return true;
    });
    if (!o.json) printer.finish();
  }
  report(o, tokenizer.decode(made), made.size(), seconds_since(start), device.id());
}

}  // namespace

void add_generate(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("generate", "Let a trained language model write");
  auto options = std::make_shared<Options>();
  Options& o = *options;
  command->add_option("model", o.model, "A run's folder, or its model.safetensors, of a language model (heddle train char-gpt)")->required();
  command->add_option("--prompt", o.prompt, "What it goes on with; default: a line break");
  command->add_option("--prompt-file", o.prompt_file, "The same from a file");
  command->add_option("--tokens", o.how.tokens, "At most so many")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_flag("--greedy", o.greedy, "The most likely token each time; as --temperature 0");
  command->add_option("--temperature", o.how.temperature, "Below 1 the likely become likelier")->capture_default_str();
  command->add_option("--top-k", o.how.top_k, "Only the k most likely tokens; 0: all")->capture_default_str();
  command->add_option("--top-p", o.how.top_p, "Only the most likely tokens that together have this probability")->capture_default_str();
  command->add_option("--seed", o.how.seed, "The same text again")->capture_default_str();
  command->add_option("--beams", o.beams, "Search the likeliest text with so many beams; above 1 nothing is drawn")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--length-penalty", o.length_penalty, "Of beams: log-probability / length^x is compared")->capture_default_str();
  command->add_option("--stop", o.stop, "A token that ends the text; may be given several times");
  command->add_option("--tokenizer", o.tokenizer, "Instead of the one in the model file");
  command->add_flag("--no-cache", o.no_cache, "Compute all earlier positions again for each token");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle generate runs/char-gpt --prompt 'ROMEO:' --temperature 0.8 --top-k 40");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
