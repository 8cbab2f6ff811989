// Which family's turns a template of a model writes (data/chat_template.h).
#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "heddle/data/chat_flow.h"
#include "heddle/data/chat_form.h"
#include "heddle/data/chat_template.h"

namespace heddle::data {
namespace {

using namespace std::string_literals;
using detail::flow_content;
using detail::flow_cut;
using detail::flow_other;
using detail::flow_role;
using detail::flow_system;
using detail::flow_trimmed;

class Recogniser {
 public:
  explicit Recogniser(std::string_view jinja) : jinja_(jinja), flow_(detail::chat_flow(jinja)) {}

  std::optional<ChatForm> run() {
    // Thoughts are written in one turn and taken out of another: none of the forms does that.
    for (const char* more : {"<think>", "reasoning"})
      if (jinja_.find(more) != std::string_view::npos) return {};
    for (const auto family : {&Recogniser::chatml, &Recogniser::llama3, &Recogniser::gemma, &Recogniser::phi3,
                              &Recogniser::llama2, &Recogniser::mistral})
      if (auto form = (this->*family)()) return form;
    return {};
  }

 private:
  bool has(const std::string& piece) const { return flow_.find(piece) != std::string::npos; }
  // Of a turn "...R...C...": the form whose content is written so, nothing where neither is.
  std::optional<bool> trims(const std::string& front, const std::string& back) const {
    if (has(front + flow_content + back)) return false;
    if (has(front + flow_trimmed + back)) return true;
    return {};
  }
  bool begins() const {
    const size_t first = flow_.find_first_not_of(" \t\n"s + flow_cut);
    return first != std::string::npos && flow_[first] == detail::flow_begin;
  }
  static ChatForm form_of(const char* name) { return ChatTemplate::named(name).form(); }

  // A literal text between these.
  std::optional<std::string> literal(const std::string& front, const std::string& back) const {
    for (size_t at = flow_.find(front); at != std::string::npos; at = flow_.find(front, at + 1)) {
      const size_t begin = at + front.size();
      const size_t end = flow_.find_first_of("\x02\x03\x04\x05\x06\x0e\x0f\x10<", begin);
      if (end != std::string::npos && end > begin && flow_.compare(end, back.size(), back) == 0)
        return flow_.substr(begin, end - begin);
    }
    return {};
  }

  std::optional<ChatForm> chatml() {
    const auto trimmed = trims("<|im_start|>"s + flow_role + "\n", "<|im_end|>\n");
    if (!trimmed || !has("<|im_start|>assistant\n")) return {};
    ChatForm form = form_of("chatml");
    if (*trimmed) form.trim = ChatForm::Trim::with_system;
    if (begins()) form.opening = "\x02"s;
    form.default_system = literal("<|im_start|>system\n", "<|im_end|>\n");
    return form;
  }

  std::optional<ChatForm> llama3() {
    const auto trimmed = trims("<|start_header_id|>"s + flow_role + "<|end_header_id|>\n\n", "<|eot_id|>");
    if (!trimmed || !has("<|start_header_id|>assistant<|end_header_id|>\n\n") || !has("\x02")) return {};
    const bool dated = jinja_.find("Knowledge Date") != std::string_view::npos;
    ChatForm form = form_of(dated ? "llama3.1" : "llama3");
    if (dated && !has(form.system_lead.substr(0, form.system_lead.find('\n') + 1))) return {};
    if (!*trimmed) form.trim = ChatForm::Trim::none;
    return form;
  }

  std::optional<ChatForm> gemma() {
    const std::string front = "<start_of_turn>"s + flow_role + "\n";
    auto trimmed = trims(front, "<end_of_turn>\n");
    const bool third = has(front + flow_other) && has("\x05") && has("<end_of_turn>\n") &&
                       jinja_.find("first_user_prefix") != std::string_view::npos;
    if (third) trimmed = true;
    if (!trimmed || !has("<start_of_turn>model\n")) return {};
    ChatForm form = form_of("gemma");
    if (!*trimmed) form.trim = ChatForm::Trim::none;
    if (!has("\x02")) form.opening = ""s;  // Gemma 1's: the tokenizer puts it there
    if (form.opening.empty()) form.opening = "\x01"s;
    return form;
  }

  std::optional<ChatForm> phi3() {
    const bool by_role = has("<|"s + flow_role + "|>\n" + flow_content + "<|end|>\n");
    const std::string turn = flow_content + "<|end|>\n"s;
    const bool by_turn = has("<|user|>\n" + turn) && (has("<|assistant|>\n" + turn) || has(flow_cut + turn));
    if ((!by_role && !by_turn) || !has("<|assistant|>\n")) return {};
    ChatForm form = form_of("phi3");
    if (begins()) form.opening = "\x02"s;
    if (!has("\x03")) form.closing = ""s;
    return form;
  }

  std::optional<ChatForm> llama2() {
    const auto trimmed = trims("\x02[INST] ", " [/INST]");
    if (!trimmed || !*trimmed || !has("<<SYS>>\n") || !has(" "s + flow_trimmed + " \x03")) return {};
    return form_of("llama2");
  }

  // Versions differ in spaces, and in the question that has the system's text.
  std::optional<ChatForm> mistral() {
    if (has("<<SYS>>") || !has("\x02")) return {};
    ChatForm form = form_of("mistral");
    bool asks = false, answers = false;
    for (const std::string front : {" [INST] ", "[INST] ", "[INST]"})
      for (const std::string back : {" [/INST]", "[/INST]"})
        if (const auto trimmed = trims(front, back); trimmed && !*trimmed && !asks) {
          asks = true;
          form.question_front = front;
          form.question_back = back;
        }
    for (const std::string lead : {" ", ""})
      if (const auto trimmed = trims(lead, "\x03"); trimmed && !answers) {
        answers = true;
        form.answer_lead = lead;
        form.answer_tail = has(lead + (*trimmed ? flow_trimmed : flow_content) + "\x03 ") ? " "s : ""s;
        if (*trimmed) form.trim = ChatForm::Trim::answers;
      }
    if (!asks || !answers) return {};
    if (jinja_.find("loop.last and system_message") != std::string_view::npos)
      form.system = ChatForm::System::last_question;
    return form;
  }

  std::string_view jinja_;
  std::string flow_;
};

}  // namespace

std::optional<ChatTemplate> ChatTemplate::recognised(std::string_view jinja) {
  constexpr size_t longest = size_t{1} << 18;
  if (jinja.size() > longest) return {};
  auto form = Recogniser(jinja).run();
  return form ? std::optional(ChatTemplate(*std::move(form))) : std::nullopt;
}

}  // namespace heddle::data
