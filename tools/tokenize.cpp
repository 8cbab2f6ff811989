// heddle tokenize train|encode|decode|info
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <memory>

#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/text.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/io/atomic_file.h"
#include "tools/cli.h"
#include "tools/progress.h"

namespace heddle::tools {
namespace {

using data::BpeTokenizer;
using data::TokenizerPtr;

struct TokenizeOptions {
  std::string text, out, tokenizer, file, kind = "bpe";
  int64_t vocabulary = 1024, least_count = 2;
  std::vector<std::string> special = {"<|endoftext|>"};
  std::vector<int32_t> tokens;
  bool recognise_special = false, json = false;
};

std::string standard_input() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

TokenizerPtr learn(const TokenizeOptions& o, const std::string& text) {
  if (o.kind == "characters") return std::make_shared<data::CharTokenizer>(text);
  return BpeTokenizer::train(text, {.vocabulary = o.vocabulary, .special = o.special, .least_count = o.least_count});
}

void save(const TokenizerPtr& tokenizer, const std::string& folder) {
  require_writable_folder(folder);
  if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(tokenizer.get())) bpe->save(folder);
  write_file_atomically(folder + "/tokenizer.json", tokenizer->str());
}

void train(const TokenizeOptions& o) {
  const std::string text = data::read_text(o.text);
  const auto start = std::chrono::steady_clock::now();
  const TokenizerPtr tokenizer = learn(o, text);
  const double seconds = seconds_since(start);
  save(tokenizer, o.out);
  if (o.json) {
    print_json({{"event", "done"},
                {"tokens", tokenizer->size()},
                {"bytes", text.size()},
                {"seconds", seconds},
                {"out", o.out}});
  } else {
    fmt::print("{} tokens from {} bytes of {} in {:.2f} s, saved in {}\n",
               with_commas(static_cast<double>(tokenizer->size())), with_commas(static_cast<double>(text.size())),
               o.text, seconds, o.out);
  }
}

void encode(const TokenizeOptions& o) {
  const TokenizerPtr tokenizer = data::load_tokenizer(o.tokenizer);
  const std::string text = !o.file.empty() ? data::read_text(o.file) : !o.text.empty() ? o.text : standard_input();
  const std::vector<int32_t> tokens =
      tokenizer->encode(text, o.recognise_special ? data::SpecialTokens::recognised : data::SpecialTokens::as_text);
  if (o.json) return print_json(tokens);
  fmt::print("{}\n", fmt::join(tokens, " "));
}

void decode(const TokenizeOptions& o) {
  const TokenizerPtr tokenizer = data::load_tokenizer(o.tokenizer);
  std::vector<int32_t> tokens = o.tokens;
  if (tokens.empty()) {
    tokens.assign(std::istream_iterator<int32_t>(std::cin), {});
    if (!std::cin.eof()) throw ValueError("[tokenize] standard input holds something that is no token");
  }
  fmt::print("{}\n", tokenizer->decode(tokens));
}

const char* kind_of(const data::Tokenizer& tokenizer) {
  if (dynamic_cast<const BpeTokenizer*>(&tokenizer) != nullptr) return "bpe";
  return dynamic_cast<const data::PipelineTokenizer*>(&tokenizer) != nullptr ? "pipeline" : "characters";
}

void info(const TokenizeOptions& o) {
  const TokenizerPtr tokenizer = data::load_tokenizer(o.tokenizer);
  Json json = {{"type", kind_of(*tokenizer)}, {"tokens", tokenizer->size()}, {"special", tokenizer->special()}};
  if (!o.file.empty()) {
    const std::string text = data::read_text(o.file);
    const auto start = std::chrono::steady_clock::now();
    const auto count = tokenizer->encode(text).size();
    const double seconds = seconds_since(start);
    json["bytes"] = text.size();
    json["file_tokens"] = count;
    json["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(std::max<size_t>(count, 1));
    json["megabytes_per_second"] = static_cast<double>(text.size()) / 1e6 / seconds;
  }
  if (o.json) return print_json(json);
  for (const auto& [key, value] : json.items())
    fmt::print("{:<22}{}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
}

CLI::App* add(CLI::App& parent, const char* name, const char* help, const std::shared_ptr<TokenizeOptions>& options,
              void (*run)(const TokenizeOptions&)) {
  CLI::App* command = parent.add_subcommand(name, help);
  add_json_option(*command, options->json);
  command->callback([options, run] { run(*options); });
  return command;
}

void add_tokenizer_option(CLI::App& command, TokenizeOptions& o) {
  command
      .add_option(
          "--tokenizer", o.tokenizer,
          "Folder with tokenizer.json, or with vocab.json and merges.txt; a tokenizer.json, also one of Hugging "
          "Face's library; or a model file that holds one")
      ->required();
}

}  // namespace

void add_tokenize(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("tokenize", "Train tokenizers; text to tokens and back");
  command->require_subcommand(1);
  auto options = std::make_shared<TokenizeOptions>();
  TokenizeOptions& o = *options;
  command->footer(
      "Example:\n  heddle tokenize train corpus.txt --vocabulary 4096 --out tokenizer\n  heddle tokenize encode "
      "--tokenizer tokenizer 'to be or not'");

  CLI::App* training = add(*command, "train", "Learn a vocabulary from a text", options, train);
  training->add_option("text", o.text, "A text file, or a folder of .txt files")->required();
  training->add_option("--out", o.out, "Folder for vocab.json, merges.txt (GPT-2's files) and tokenizer.json")
      ->required();
  training->add_option("--kind", o.kind, "bpe: byte-level byte pairs; characters: one token a character")
      ->check(CLI::IsMember({"bpe", "characters"}))
      ->capture_default_str();
  training->add_option("--vocabulary", o.vocabulary, "Tokens in all: 256 bytes, merges and special tokens")
      ->capture_default_str();
  training->add_option("--least-count", o.least_count, "A pair that is rarer is not merged")->capture_default_str();
  training->add_option("--special", o.special, "Special tokens")->capture_default_str();
  training->footer("Example:\n  heddle tokenize train corpus.txt --vocabulary 4096 --out tokenizer");

  CLI::App* encoding = add(*command, "encode", "Text to tokens", options, encode);
  encoding->add_option("text", o.text, "The text; default: --file, or standard input");
  encoding->add_option("--file", o.file, "A text file, or a folder of .txt files");
  encoding->add_flag("--recognise-special", o.recognise_special, "Special tokens in the text are such");
  add_tokenizer_option(*encoding, o);

  CLI::App* decoding = add(*command, "decode", "Tokens to text", options, decode);
  decoding->add_option("tokens", o.tokens, "The tokens; default: standard input");
  add_tokenizer_option(*decoding, o);

  CLI::App* about = add(*command, "info", "What a tokenizer is, and how it does on a text", options, info);
  about->add_option("--file", o.file, "A text to encode: bytes per token, MB/s");
  add_tokenizer_option(*about, o);
}

}  // namespace heddle::tools
