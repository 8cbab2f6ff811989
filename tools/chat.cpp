// heddle chat: a conversation in the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/device/context.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/tokenizer.h"
#include "heddle/nn/generate.h"
#include "heddle/nn/language_model.h"
#include "heddle/nn/lora_files.h"
#include "heddle/train/recipes/base_model.h"
#include "tools/cli.h"
#include "tools/interrupt.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

struct ChatOptions {
  std::string model, adapter, device, form, system;
  nn::GenerateOptions how = {.tokens = 512, .temperature = 0.7, .top_p = 0.95};
};

class Conversation {
 public:
  Conversation(const ChatOptions& o, const train::BaseModel& base, data::ChatTemplate form)
      : o_(o), base_(base), form_(std::move(form)) {
    if (!o.system.empty()) turns_.push_back({"system", o.system});
  }

  // Prints the answer as it comes.
  void ask(const std::string& text) {
    turns_.push_back({"user", text});
    const std::vector<int32_t> prompt = data::encode_prompt(turns_, form_, *base_.tokenizer);
    const int64_t context = base_.network->options().context;
    if (static_cast<int64_t>(prompt.size()) + 1 >= context)
      throw ValueError(
          fmt::format("[chat] the conversation has {} tokens, the model reads {}", prompt.size(), context));
    nn::GenerateOptions how = o_.how;
    how.seed += turns_.size();
    how.stop = base_.ends;
    how.tokens = std::min(how.tokens, context - static_cast<int64_t>(prompt.size()));
    data::StreamedText stream(*base_.tokenizer);
    const auto decoder =
        nn::cached_decoder(*base_.network, 1, positions(static_cast<int64_t>(prompt.size()) + how.tokens));
    const std::vector<int32_t> made = nn::generate(*decoder, prompt, how, [&](int32_t token) {
      print_out(stream.add(token));
      return !InterruptScope::caught();
    });
    print_out(stream.finish() + "\n");
    turns_.push_back({"assistant", base_.tokenizer->decode(made)});
  }

 private:
  // In steps, so that turns share their kernels.
  int64_t positions(int64_t needed) const {
    constexpr int64_t step = 512;
    return std::min(round_up(needed, step), base_.network->options().context);
  }

  const ChatOptions& o_;
  const train::BaseModel& base_;
  data::ChatTemplate form_;
  std::vector<data::ChatTurn> turns_;
};

int run(const ChatOptions& o) {
  DeviceContext& device = open_device(o.device, true);
  const train::BaseModel base = train::load_base_model(o.model, nn::GgufWeights::packed, device);
  std::optional<nn::Lora> adapters;
  if (!o.adapter.empty()) adapters.emplace(nn::load_peft(o.adapter, *base.network)).eval();
  Conversation conversation(o, base, train::template_of(base, o.form));
  const InterruptScope on_interrupt;
  std::string line;
  for (print_error("> "); !InterruptScope::caught() && std::getline(std::cin, line); print_error("> ")) {
    if (!line.empty()) conversation.ask(line);
  }
  print_error("\n");
  return InterruptScope::exit_code();
}

}  // namespace

void add_chat(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("chat", "Talk to a language model in the terminal");
  auto options = std::make_shared<ChatOptions>();
  ChatOptions& o = *options;
  command->add_option("model", o.model, "A GGUF file, or a folder of Hugging Face")->required();
  command->add_option("--adapter", o.adapter, "Folder of PEFT with adapters of the model (heddle finetune)");
  command->add_option("--system", o.system, "What the model is told before the conversation");
  command->add_option("--template", o.form, "Chat template, where the model's own is unknown or missing");
  command->add_option("--tokens", o.how.tokens, "Of an answer, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--temperature", o.how.temperature, "0: always the likeliest token")->capture_default_str();
  command->add_option("--top-p", o.how.top_p, "Only the likeliest tokens that together have this probability")
      ->capture_default_str();
  command->add_option("--seed", o.how.seed, "Of the draws")->capture_default_str();
  command->add_option("--device", o.device,
                      "Device, e.g. vulkan:0; default: HEDDLE_DEVICE, else the best one (see `heddle devices`)");
  command->footer(
      "Lines of standard input are what the user says; the end of it, or Ctrl-C, ends the conversation.\nExample:\n  "
      "heddle chat smollm2.gguf --adapter runs/finetune/adapter");
  command->callback([options, &cli] { cli.exit_code = run(*options); });
}

}  // namespace heddle::tools
