#include "heddle/data/chat_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/chat_form.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

using System = ChatForm::System;
using Trim = ChatForm::Trim;

ChatForm chatml() {
  return {.name = "chatml",
          .system_front = "<|im_start|>system\n",
          .system_back = "<|im_end|>\n",
          .question_front = "<|im_start|>user\n",
          .question_back = "<|im_end|>\n",
          .answer_front = "<|im_start|>assistant\n",
          .answer_end = "<|im_end|>",
          .answer_tail = "\n",
          .needs = {"<|im_start|>", "<|im_end|>"}};
}

ChatForm llama2() {
  return {.name = "llama2",
          .system = System::first_question,
          .system_front = "<<SYS>>\n",
          .system_back = "\n<</SYS>>\n\n",
          .question_front = "\x02[INST] ",
          .question_back = " [/INST]",
          .answer_lead = " ",
          .answer_end = " \x03",
          .trim = Trim::joined,
          .alternates = true};
}

std::string header(const char* role) { return fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role); }

ChatForm llama3() {
  return {.name = "llama3",
          .opening = "\x02",
          .system_front = header("system"),
          .system_back = "<|eot_id|>",
          .question_front = header("user"),
          .question_back = "<|eot_id|>",
          .answer_front = header("assistant"),
          .answer_end = "<|eot_id|>",
          .trim = Trim::with_system,
          .needs = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}};
}

// The day is the template's own default: a model that learns should not learn when it did.
ChatForm llama3_1() {
  ChatForm form = llama3();
  form.name = std::string("llama3.1");
  form.system_lead = std::string("Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
  return form;
}

ChatForm mistral() {
  return {.name = "mistral",
          .opening = "\x02",
          .system = System::first_question,
          .system_back = "\n\n",
          .question_front = "[INST] ",
          .question_back = " [/INST]",
          .answer_lead = " ",
          .answer_end = "\x03",
          .alternates = true};
}

ChatForm gemma() {
  return {.name = "gemma",
          .opening = "\x02",
          .system = System::first_question,
          .system_back = "\n\n",
          .question_front = "<start_of_turn>user\n",
          .question_back = "<end_of_turn>\n",
          .answer_front = "<start_of_turn>model\n",
          .answer_end = "<end_of_turn>",
          .answer_tail = "\n",
          .trim = Trim::questions_and_answers,
          .alternates = true,
          .needs = {"<start_of_turn>", "<end_of_turn>"}};
}

ChatForm phi3() {
  return {.name = "phi3",
          .system_front = "<|system|>\n",
          .system_back = "<|end|>\n",
          .question_front = "<|user|>\n",
          .question_back = "<|end|>\n",
          .answer_front = "<|assistant|>\n",
          .answer_end = "<|end|>",
          .answer_tail = "\n",
          .closing = "\x03",
          .end_otherwise = "",
          .needs = {"<|user|>", "<|assistant|>", "<|end|>"}};
}

// Taori et al. 2023, "Stanford Alpaca": the text without an input.
ChatForm alpaca() {
  return {.name = "alpaca",
          .opening = "\x01",
          .system_back = "\n\n",
          .default_system =
              "Below is an instruction that describes a task. Write a response that appropriately "
              "completes the request.",
          .question_front = "### Instruction:\n",
          .question_back = "\n\n",
          .answer_front = "### Response:\n",
          .answer_end = "\x03",
          .end_otherwise = "\n\n"};
}

ChatForm plain() {
  return {.name = "plain",
          .opening = "\x01",
          .system_back = "\n",
          .question_back = "\n",
          .answer_end = "\x03",
          .end_otherwise = "\n"};
}

std::vector<ChatForm> forms() {
  return {chatml(), llama2(), llama3(), llama3_1(), mistral(), gemma(), phi3(), alpaca(), plain()};
}

std::string text_of_config(const nlohmann::json& config) {
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end()) return {};
  if (found->is_string()) return *found;
  if (!found->is_array()) return {};
  for (const nlohmann::json& one : *found) {
    const bool is_default = one.is_object() && one.contains("name") && one["name"] == "default";
    if (is_default && one.contains("template") && one["template"].is_string()) return one["template"];
  }
  return {};
}

}  // namespace

ChatTemplate::ChatTemplate(ChatForm form) : form_(std::make_shared<const ChatForm>(std::move(form))) {}

const std::string& ChatTemplate::name() const { return form_->name; }

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> all;
  for (const ChatForm& form : forms()) all.push_back(form.name);
  return all;
}

ChatTemplate ChatTemplate::named(std::string_view name) {
  for (ChatForm& form : forms())
    if (form.name == name) return ChatTemplate(std::move(form));
  throw ValueError(fmt::format("[chat template] '{}' is not known: expected one of {}", shortened(name, 40),
                               fmt::join(names(), ", ")));
}

std::string chat_template_of(const Gguf& file) {
  const GgufValue* found = file.find("tokenizer.chat_template");
  return found == nullptr || found->type() != GgufType::text ? std::string() : std::string(found->as_text());
}

std::string chat_template_of_folder(const std::string& folder) {
  const fs::path alone = fs::path(folder) / "chat_template.jinja", config = fs::path(folder) / "tokenizer_config.json";
  if (fs::exists(alone)) return read_text_file(alone.string(), "chat template");
  if (!fs::exists(config)) return {};
  const std::string text = read_text_file(config.string(), "chat template");
  return text_of_config(parse_json(text, fmt::format("[chat template] {}", config.string())));
}

}  // namespace heddle::data
