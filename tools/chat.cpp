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
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/device/context.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/unicode.h"
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
  bool json = false;
};

class Conversation {
 public:
  Conversation(const ChatOptions& o, const train::BaseModel& base, data::ChatTemplate form)
      : o_(o), base_(base), form_(std::move(form)) {
    if (!o.system.empty()) turns_.push_back({"system", o.system});
  }

  // Prints the answer as it comes, or with --json when it is there. The first Ctrl-C ends it; while nothing is
  // answered, Ctrl-C ends the process.
  void ask(const std::string& text) {
    turns_.push_back({"user", text});
    const std::vector<int32_t> prompt = read_prompt();
    const auto read = static_cast<int64_t>(prompt.size());
    nn::GenerateOptions how = o_.how;
    how.seed += asked_++;
    how.stop = base_.ends;
    how.tokens = std::min(how.tokens, context() - read);
    data::StreamedText stream(*base_.tokenizer);
    const InterruptScope on_interrupt;
    const auto decoder = nn::cached_decoder(*base_.network, 1, positions(read + how.tokens));
    const std::vector<int32_t> made = nn::generate(*decoder, prompt, how, [&](int32_t token) {
      if (!o_.json) print_out(stream.add(token));
      return !InterruptScope::caught();
    });
    turns_.push_back({"assistant", base_.tokenizer->decode(made)});
    if (o_.json)
      print_json({{"event", "answer"},
                  {"text", data::valid_utf8(turns_.back().content)},
                  {"tokens", made.size()},
                  {"prompt_tokens", read}});
    else
      print_out(stream.finish() + "\n");
  }

 private:
  int64_t context() const { return base_.network->options().context; }

  // The conversation up to where the answer begins. Where the context has no room for it and an answer, the oldest
  // questions are forgotten with their answers.
  std::vector<int32_t> read_prompt() {
    const size_t first = turns_[0].role == "system" ? 1 : 0, before = turns_.size();
    const int64_t room = std::min(o_.how.tokens, std::max<int64_t>(1, context() / 4));
    std::vector<int32_t> prompt = data::encode_prompt(turns_, form_, *base_.tokenizer);
    while (static_cast<int64_t>(prompt.size()) + room > context() && turns_.size() > first + 1) {
      const auto oldest = turns_.begin() + static_cast<std::ptrdiff_t>(first);
      turns_.erase(oldest, oldest + 2);
      prompt = data::encode_prompt(turns_, form_, *base_.tokenizer);
    }
    if (static_cast<int64_t>(prompt.size()) >= context())
      throw ValueError(fmt::format("[chat] the question has {} tokens with what stands around it, the model reads {}",
                                   prompt.size(), context()));
    if (turns_.size() < before)
      print_error("heddle: the model's context of {} tokens is full: the oldest {} turns are forgotten\n", context(),
                  before - turns_.size());
    return prompt;
  }

  // In steps, so that turns share their kernels.
  int64_t positions(int64_t needed) const {
    constexpr int64_t step = 512;
    return std::min(round_up(needed, step), context());
  }

  const ChatOptions& o_;
  const train::BaseModel& base_;
  data::ChatTemplate form_;
  std::vector<data::ChatTurn> turns_;
  uint64_t asked_ = 0;
};

int run(const ChatOptions& o) {
  DeviceContext& device = open_device(o.device, true);
  const train::BaseModel base = train::load_base_model(o.model, nn::GgufWeights::packed, device);
  std::optional<nn::Lora> adapters;
  if (!o.adapter.empty()) adapters.emplace(nn::load_peft(o.adapter, *base.network)).eval();
  Conversation conversation(o, base, train::template_of(base, o.form));
  const auto prompt = [&] {
    if (os::is_terminal(os::Stream::input)) print_error("> ");
  };
  std::string line;
  for (prompt(); !InterruptScope::caught() && std::getline(std::cin, line); prompt()) {
    if (line.ends_with('\r')) line.pop_back();  // of files of Windows
    if (line.find_first_not_of(" \t") != std::string::npos) conversation.ask(line);
  }
  if (os::is_terminal(os::Stream::input)) print_error("\n");
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
  add_json_option(*command, o.json);
  command->footer(
      "Lines of standard input are what the user says; the end of it, or Ctrl-C, ends the conversation. Where the\n"
      "model's context is full, the oldest questions and answers are forgotten.\nExample:\n  "
      "heddle chat smollm2.gguf --adapter runs/finetune/adapter");
  command->callback([options, &cli] { cli.exit_code = run(*options); });
}

}  // namespace heddle::tools
