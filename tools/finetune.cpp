// heddle finetune
#include "heddle/train/recipes/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/data/chat.h"
#include "tools/cli.h"
#include "tools/finetune_options.h"
#include "tools/output.h"
#include "tools/train_command.h"

namespace heddle::tools {
namespace {

// What the model will see of the first examples, without training.
void show(const FinetuneOptions& o) {
  const train::Config config = o.config();
  (void)train::FinetuneObjective::of(config);
  const train::BaseModel base = train::read_base_text(o.model);
  const train::ChatData data = train::read_chat_data(config, base);
  for (const std::string& remark : data.remarks) print_out(one_line(remark) + '\n');
  const auto count = std::min<size_t>(static_cast<size_t>(o.preview), data.training.size());
  const auto one = [&](size_t number, const char* what, const data::ChatTokens& tokens) {
    print_out(fmt::format("--- example {}{}, {} tokens\n{}\n", number, what, tokens.tokens.size(),
                          data::preview(tokens, *base.tokenizer)));
  };
  const bool is_of_pairs = !data.rejected_training.empty();
  for (size_t i = 0; i < count; ++i) {
    one(i + 1, is_of_pairs ? ", chosen" : "", data.training[i]);
    if (is_of_pairs) one(i + 1, ", rejected", data.rejected_training[i]);
  }
}

// A run that goes on computes as it began, whatever its device has now.
void keep_choice(train::Config& config) {
  const std::string folder = config.run.out.empty() ? default_folder(config.run.recipe) : config.run.out;
  const std::string path = fs::path(folder) / fs::path("config.toml");
  if (config.model_value<train::Text>("recompute") != "auto" || !fs::exists(path)) return;
  const train::Config begun = train::Config::load(path);
  if (const auto found = begun.model.find("recompute"); found != begun.model.end())
    config.model["recompute"] = found->second;
  if (config.training.memory_budget == 0) config.training.memory_budget = begun.training.memory_budget;
}

}  // namespace

void add_finetune(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("finetune", "Fine-tune a language model on conversations or texts");
  auto options = std::make_shared<FinetuneOptions>();
  FinetuneOptions& o = *options;
  o.add_to(*command);
  command->add_option("--preview", o.preview, "Show what the model will see of so many examples, and end");
  command->add_flag("--resume", o.resume, "Go on from the newest whole checkpoint in --out");
  add_json_option(*command, o.json);
  command->footer(
      "--data: JSON lines of conversations (OpenAI's messages, ShareGPT's, Alpaca's), or a .txt file; for dpo and orpo "
      "lines of {prompt, chosen, rejected}. The run's folder gets adapter/ for PEFT and adapter.gguf for "
      "llama.cpp.\nExample:\n  heddle finetune smollm2.gguf --data "
      "chat.jsonl --steps 200 --device vulkan:0");
  command->callback([options, &cli] {
    if (options->preview > 0) return show(*options);
    train::Config config = options->config();
    if (options->resume) keep_choice(config);
    cli.exit_code = run_training(std::move(config), options->resume, options->json);
  });
}

}  // namespace heddle::tools
