// Chat templates: how a model's family writes a conversation, and conversations as tokens.
//
//   const auto form = data::ChatTemplate::recognised(data::chat_template_of_folder(model));   // or ::named("chatml")
//   const data::ChatTokens tokens = data::encode_chat(example, *form, *tokenizer);
//
// The forms are those that the models' authors publish: chatml (Qwen 2 and 2.5, SmolLM2, Yi, Hermes), llama2, llama3,
// llama3.1 (which begins with the dates of its knowledge), mistral, gemma (a system's text stands in front of the
// first question, as Gemma 3 has it), phi3, alpaca ("### Instruction:"), plain (the turns' texts alone, in lines).
// Invariants: tokens are those of the text that the model's own template makes, but special tokens stand only in the
// template's own pieces: what looks like one in a turn is text. A stretch between two special tokens is cut into tokens
// as a whole.
// Errors: ValueError "[chat template] NAME does not fit: ..." for a tokenizer without the special tokens, and for
// turns in an order that the family's own template refuses. Thread safety: values; pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/chat.h"
#include "heddle/data/tokenizer.h"
#include "heddle/io/gguf.h"

namespace heddle::data {

struct ChatForm;

class ChatTemplate {
 public:
  // ValueError that lists names() for another name.
  static ChatTemplate named(std::string_view name);
  // What a model's own template (Jinja) writes, told by the expressions that make its turns; its default system text,
  // its spaces and where it puts a system's text are kept. Nothing where it is none of those, or more than that:
  // thoughts, for example.
  static std::optional<ChatTemplate> recognised(std::string_view jinja);
  static std::vector<std::string> names();

  explicit ChatTemplate(ChatForm form);
  const std::string& name() const;
  const ChatForm& form() const { return *form_; }

 private:
  std::shared_ptr<const ChatForm> form_;
};

// PyTorch's number for targets that give no loss.
inline constexpr int32_t ignored_target = -100;

struct ChatTokens {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> trained;  // of each token: whether the loss counts it as a target
  bool is_text = false;          // plain text: too long a one goes on in the next row
};

// All of an example. Trained are the answers with the token that ends them; without answers_only, and of plain text,
// all tokens but those in front of the text.
ChatTokens encode_chat(const ChatExample& example, const ChatTemplate& form, const Tokenizer& tokenizer,
                       bool answers_only = true);
// Up to where the assistant begins to answer. ValueError unless the last turn is the user's.
std::vector<int32_t> encode_prompt(const std::vector<ChatTurn>& turns, const ChatTemplate& form,
                                   const Tokenizer& tokenizer);
// The text that the tokens stand for, trained stretches between "[[" and "]]".
std::string preview(const ChatTokens& chat, const Tokenizer& tokenizer);

// The model's own template, Jinja: "tokenizer.chat_template" of a GGUF file; of a folder chat_template.jinja, or
// "chat_template" in tokenizer_config.json (of several the one named "default"). Empty where there is none. IoError for
// files that cannot be read.
std::string chat_template_of(const Gguf& file);
std::string chat_template_of_folder(const std::string& folder);

}  // namespace heddle::data
