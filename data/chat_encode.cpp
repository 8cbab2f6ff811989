// Conversations as tokens (data/chat_template.h).
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/chat_form.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/chat_writer.h"
#include "heddle/data/unicode.h"

namespace heddle::data {
namespace {

using System = ChatForm::System;
using Trim = ChatForm::Trim;

// The token that ends a text, where a tokenizer says so; GPT-2's own files do not, and its name is known.
std::optional<int32_t> end_of(const Tokenizer& tokenizer) {
  if (tokenizer.ends().end) return tokenizer.ends().end;
  const auto found = tokenizer.special().find("<|endoftext|>");
  return found == tokenizer.special().end() ? std::nullopt : std::optional(found->second);
}

class ChatEncoder {
 public:
  ChatEncoder(const ChatForm& form, const Tokenizer& tokenizer, bool all)
      : f_(form), tokenizer_(tokenizer), all_(all), end_(end_of(tokenizer)), out_(tokenizer) {
    for (const std::string& name : f_.needs)
      if (!has(name)) fail(fmt::format("the tokenizer has no token {}", name));
  }

  void turns(const std::vector<ChatTurn>& turns) {
    check_order(turns);
    piece(f_.opening, false);
    const bool given = !turns.empty() && turns[0].role == "system";
    if (given) system_ = turns[0].content;
    if (!given && f_.default_system) system_ = *f_.default_system;
    if (!system_ && !f_.system_lead.empty()) system_ = "";
    if (f_.system == System::own_turn && system_) {
      piece(f_.system_front, all_);
      piece(f_.system_lead, all_);
      out_.text(f_.trim == Trim::with_system ? trimmed(*system_) : *system_, all_);
      piece(f_.system_back, all_);
    }
    size_t last_question = 0;
    for (size_t i = 0; i < turns.size(); ++i)
      if (turns[i].role == "user") last_question = i;
    bool is_first = true;
    for (size_t i = given ? 1 : 0; i < turns.size(); ++i) {
      if (turns[i].role == "assistant") {
        answer(turns[i]);
        continue;
      }
      question(turns[i].content, f_.system == System::first_question
                                     ? is_first
                                     : f_.system == System::last_question && i == last_question);
      is_first = false;
    }
  }

  void close() { piece(f_.closing, false); }
  void begin_answer() { piece(f_.answer_front, false); }
  ChatTokens finish() { return out_.finish(); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError(fmt::format("[chat template] {} does not fit: {}", f_.name, what));
  }

  void check_order(const std::vector<ChatTurn>& turns) const {
    for (size_t i = 0; i < turns.size(); ++i) {
      const std::string& role = turns[i].role;
      if (role != "user" && role != "assistant" && !(role == "system" && i == 0))
        fail(fmt::format("turn {} is of '{}', expected user or assistant, or a system first", i + 1,
                         shortened(role, 40)));
      const size_t first = turns[0].role == "system" ? 1 : 0;
      if (f_.alternates && i >= first && (role == "user") != ((i - first) % 2 == 0))
        fail(fmt::format("turn {} is of the {}, and its template takes questions and answers in turns", i + 1, role));
    }
  }

  static std::string trimmed(std::string_view text) { return std::string(trimmed_left(trimmed_right(text))); }

  void question(const std::string& content, bool with_system) {
    piece(f_.question_front, all_);
    with_system = with_system && system_;
    if (with_system) {
      piece(f_.system_front, all_);
      out_.text(*system_, all_);
      piece(f_.system_back, all_);
    }
    const bool keeps = f_.trim == Trim::none || f_.trim == Trim::answers;
    const bool keeps_left = keeps || (f_.trim == Trim::joined && with_system);
    const std::string_view right = keeps ? std::string_view(content) : trimmed_right(content);
    out_.text(keeps_left ? right : trimmed_left(right), all_);
    piece(f_.question_back, all_);
  }

  void answer(const ChatTurn& turn) {
    const bool learned = all_ || turn.trained;
    piece(f_.answer_front, all_);
    piece(f_.answer_lead, learned);
    out_.text(f_.trim == Trim::none ? turn.content : trimmed(turn.content), learned);
    piece(f_.answer_end, learned);
    piece(f_.answer_tail, all_);
  }

  // The template's own text: special tokens are such.
  void piece(std::string_view text, bool trained) {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      size_t bytes = 1;
      std::vector<int32_t> tokens;
      std::string_view instead;
      if (text[at] == '\x01') {
        tokens = tokenizer_.ends().before;
      } else if (text[at] == '\x02') {
        if (!tokenizer_.ends().begin) fail("the tokenizer names no token that begins a text");
        tokens = {*tokenizer_.ends().begin};
      } else if (text[at] == '\x03') {
        if (!end_ && !f_.end_otherwise) fail("the tokenizer names no token that ends a text");
        if (end_) tokens = {*end_};
        if (!end_) instead = *f_.end_otherwise;
      } else if (const auto found = special_at(text.substr(at)); found != tokenizer_.special().end()) {
        bytes = found->first.size();
        tokens = {found->second};
      } else {
        ++at;
        continue;
      }
      out_.text(text.substr(done, at - done), trained);
      for (const int32_t token : tokens) out_.token(token, trained);
      out_.text(instead, trained);
      done = at += bytes;
    }
    out_.text(text.substr(done), trained);
  }

  std::map<std::string, int32_t>::const_iterator special_at(std::string_view text) const {
    constexpr size_t longest = 32;
    if (text[0] != '<' && text[0] != '[') return tokenizer_.special().end();
    for (size_t bytes = std::min(text.size(), longest); bytes > 1; --bytes) {
      const auto found = tokenizer_.special().find(std::string(text.substr(0, bytes)));
      if (found != tokenizer_.special().end()) return found;
    }
    return tokenizer_.special().end();
  }

  // Special, or one that is found in any text.
  bool has(const std::string& name) const {
    if (tokenizer_.special().count(name) > 0) return true;
    try {
      const std::vector<int32_t> tokens = tokenizer_.encode(name);
      return tokens.size() == 1 && tokenizer_.text_of(tokens[0]) == name;
    } catch (const ValueError&) {  // a character that it does not know
      return false;
    }
  }

  const ChatForm& f_;
  const Tokenizer& tokenizer_;
  bool all_;
  std::optional<int32_t> end_;
  std::optional<std::string> system_;
  ChatWriter out_;
};

ChatTokens encode_text(const std::string& text, const Tokenizer& tokenizer) {
  ChatWriter out(tokenizer);
  for (const int32_t token : tokenizer.ends().before) out.token(token, false);
  out.text(text, true);
  if (const auto end = end_of(tokenizer)) out.token(*end, true);
  ChatTokens made = out.finish();
  made.is_text = true;
  return made;
}

// A line in front of what is wrong with it.
template <class F>
auto at_line(int64_t line, const F& f) {
  try {
    return f();
  } catch (const ValueError& error) {
    if (line == 0) throw;
    throw ValueError(fmt::format("{} (line {})", error.what(), line));
  }
}

}  // namespace

ChatTokens encode_chat(const ChatExample& example, const ChatTemplate& form, const Tokenizer& tokenizer,
                       bool answers_only) {
  return at_line(example.line, [&] {
    if (example.turns.empty()) return encode_text(example.text, tokenizer);
    ChatEncoder encoder(form.form(), tokenizer, !answers_only);
    encoder.turns(example.turns);
    encoder.close();
    return encoder.finish();
  });
}

std::vector<int32_t> encode_prompt(const std::vector<ChatTurn>& turns, const ChatTemplate& form,
                                   const Tokenizer& tokenizer) {
  if (turns.empty() || turns.back().role != "user")
    throw ValueError("[chat template] the last turn of a prompt is not the user's");
  ChatEncoder encoder(form.form(), tokenizer, false);
  encoder.turns(turns);
  encoder.begin_answer();
  return encoder.finish().tokens;
}

std::string preview(const ChatTokens& chat, const Tokenizer& tokenizer) {
  std::string text;
  for (size_t i = 0; i < chat.tokens.size(); ++i) {
    const bool is_trained = chat.trained[i] != 0, was = i > 0 && chat.trained[i - 1] != 0;
    if (is_trained && !was) text += "[[";
    if (!is_trained && was) text += "]]";
    text += i == 0 ? tokenizer.text_at_start(chat.tokens[i]) : tokenizer.text_of(chat.tokens[i]);
  }
  if (!chat.trained.empty() && chat.trained.back() != 0) text += "]]";
  return valid_utf8(text);
}

}  // namespace heddle::data
