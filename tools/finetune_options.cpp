#include "tools/finetune_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "heddle/train/option_uses.h"
#include "heddle/train/recipe.h"

namespace heddle::tools {
namespace {

struct Row {
  const char *flag, *key, *help;
  const char* value = nullptr;  // of a flag without one
};

constexpr Row model_rows[] = {
    {"--method", "model.method", "lora, qlora (the base stays, or is packed, in blocks), dora, or full: all weights"},
    {"--quantise", "model.quantise", "qlora of a folder: its matrices become nf4, q4_0, q4_1, q8_0, q4_k or q6_k"},
    {"--objective", "model.objective",
     "sft: cross entropy of the answers; distil: that and a teacher's; dpo, orpo: --data holds pairs of answers"},
    {"--beta", "model.beta",
     "distil: the teacher's share of the loss (0.5); dpo: how much leaving the base costs (0.1); orpo: lambda, the "
     "weight of the odds' ratio (0.1)"},
    {"--teacher", "model.teacher", "Of distil: another model with the same tokens, a GGUF file or a folder"},
    {"--temperature", "model.temperature", "Of distil: divides the logits of both models (1)"},
    {"--divergence", "model.divergence", "Of distil: forward (the default), reverse, jensen-shannon"},
    {"--rank", "model.rank", "Rank of the adapters (8)"},
    {"--alpha", "model.alpha", "The scale of the adapters is alpha / rank (16)"},
    {"--rank-stabilised", "model.rank_stabilised", "The scale is alpha / sqrt(rank)", "true"},
    {"--adapter-dropout", "model.dropout", "Of the adapters' inputs (0)"},
    {"--targets", "model.targets", "Patterns of modules that get adapters: *.q_proj,*.k_proj,*.v_proj,*.o_proj"},
    {"--length", "model.length", "Tokens of a row (512)"},
    {"--no-pack", "model.pack", "One example in a row", "false"},
    {"--buckets", "model.buckets", "Lengths that batches of --no-pack and of pairs are cut to, at most (4)"},
    {"--drop-long", "model.drop_long", "Leave out examples longer than a row, instead of cutting them", "true"},
    {"--all-tokens", "model.all_tokens", "The loss is of all tokens, not of the answers alone", "true"},
    {"--template", "model.template", "Chat template, where the model's own is unknown or missing"},
    {"--recompute", "model.recompute", "Compute blocks again for gradients: less memory, more time", "on"},
    {"--offload", "model.offload", "Compute blocks again, and keep what that begins with in the host's memory", "true"},
    {"--no-recompute", "model.recompute", "Do not, whatever the device's memory; else where it must", "off"},
    {"--skip-bad", "data.skip_broken", "Leave out lines that cannot be read, and count them", "true"},
};

void add_model_options(CLI::App& command, FinetuneOptions& o) {
  for (const Row& row : model_rows) {
    const auto give = [&o, row](const std::string& value) { o.given.push_back({row.key, value, row.flag}); };
    CLI::Option* option = row.value == nullptr ? command.add_option_function<std::string>(row.flag, give, row.help)
                                               : command.add_flag_callback(
                                                     row.flag, [give, row] { give(row.value); }, row.help);
    option->group("model");
  }
}

std::string value_text(const train::Value& value) {
  std::string text;
  if (const auto* word = std::get_if<train::Text>(&value))
    text = *word;
  else if (const auto* words = std::get_if<train::Texts>(&value))
    text = fmt::format("{}", fmt::join(*words, ","));
  else if (const auto* numbers = std::get_if<train::Integers>(&value))
    text = fmt::format("{}", fmt::join(*numbers, ","));
  else
    text = train::toml_text(value);
  return shell_word(text);
}

}  // namespace

void FinetuneOptions::add_to(CLI::App& command) {
  command.add_option("model", model, "A GGUF file, or a folder of Hugging Face")->required();
  add_model_options(command, *this);
  options.add_to(command, {"--alpha", "--skip-broken"});
}

train::Config FinetuneOptions::config() const {
  train::Config config = train::recipe_config("finetune");
  config.set("model.base", model);
  for (const Given& each : given) config.set(each.key, each.value, each.flag);
  options.apply(config);
  train::refuse_unused_options(config, train::recipe_config("finetune"));
  return config;
}

std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+=";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string finetune_flag(const train::Config& config, const std::string& key) {
  const train::ConfigRow* known = train::find_config_row(key);
  const train::Value value = known != nullptr ? known->get(config) : config.model.at(key.substr(key.find('.') + 1));
  const std::string text = value_text(value);
  for (const Row& row : model_rows) {
    if (row.key != key) continue;
    if (row.value == nullptr) return fmt::format("{} {}", row.flag, text);
    if (row.value == text) return row.flag;
  }
  if (known == nullptr || known->flag.empty() || key == "optimizer.alpha") return fmt::format("--set {}={}", key, text);
  const auto* flag = std::get_if<train::Flag>(&value);
  if (flag != nullptr) return *flag ? known->flag : fmt::format("--no-{}", known->flag.substr(2));
  return fmt::format("{} {}", known->flag, text);
}

}  // namespace heddle::tools
