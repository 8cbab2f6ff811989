// heddle finetune
#include "heddle/train/recipes/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/data/chat.h"
#include "heddle/train/option_uses.h"
#include "tools/cli.h"
#include "tools/config_options.h"
#include "tools/output.h"
#include "tools/train_command.h"

namespace heddle::tools {
namespace {

struct FinetuneOptions {
  std::string model;
  struct Given {
    std::string key, value, flag;
  };
  std::vector<Given> given;
  ConfigOptions options;
  int64_t preview = 0;
  bool resume = false, json = false;

  train::Config config() const {
    train::Config config = train::recipe_config("finetune");
    config.set("model.base", model);
    for (const Given& each : given) config.set(each.key, each.value, each.flag);
    options.apply(config);
    train::refuse_unused_options(config, train::recipe_config("finetune"));
    return config;
  }
};

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
    {"--recompute", "model.recompute", "Compute blocks again for gradients: less memory, more time", "true"},
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

}  // namespace

void add_finetune(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("finetune", "Fine-tune a language model on conversations or texts");
  auto options = std::make_shared<FinetuneOptions>();
  FinetuneOptions& o = *options;
  command->add_option("model", o.model, "A GGUF file, or a folder of Hugging Face")->required();
  add_model_options(*command, o);
  command->add_option("--preview", o.preview, "Show what the model will see of so many examples, and end");
  command->add_flag("--resume", o.resume, "Go on from the newest whole checkpoint in --out");
  o.options.add_to(*command, {"--alpha", "--skip-broken"});
  add_json_option(*command, o.json);
  command->footer(
      "--data: JSON lines of conversations (OpenAI's messages, ShareGPT's, Alpaca's), or a .txt file; for dpo and orpo "
      "lines of {prompt, chosen, rejected}. The run's folder gets adapter/ for PEFT and adapter.gguf for "
      "llama.cpp.\nExample:\n  heddle finetune smollm2.gguf --data "
      "chat.jsonl --steps 200 --device vulkan:0");
  command->callback([options, &cli] {
    if (options->preview > 0) return show(*options);
    cli.exit_code = run_training(options->config(), options->resume, options->json);
  });
}

}  // namespace heddle::tools
