// Chats and instructions to learn from, as files hold them.
//
//   const data::ChatFile file = data::read_chat_file("answers.jsonl");       // file.form: "messages"
//
// A .jsonl or .json file has an object in each line, or one list of objects: OpenAI's {"messages": [{"role",
// "content"}]}, ShareGPT's {"conversations": [{"from", "value"}]}, Alpaca's {"instruction", "input", "output"} (also
// "context" and "response", and "system"), {"prompt", "completion"}, {"text"}. The first example says which form all
// have. Any other file is one long text.
// Invariants: turns are a system's at most once and first, then questions (user) and answers (assistant); there is an
// answer, no answer is blank, and the last turn is one: questions behind it are left out and counted in the remarks.
// An empty or broken line is an error with its number and reason, or left out (skip_bad) and said in the remarks;
// empty lines at the end of a file are none. A line has at most 16 MiB, an example at most 4096 turns.
// Errors: IoError. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::data {

struct ChatTurn {
  std::string role, content;  // role: system, user, assistant
  bool trained = true;        // OpenAI's "weight" 0: an answer that is not learned
};

struct ChatExample {
  std::vector<ChatTurn> turns;
  std::string text;  // plain text; then there are no turns
  int64_t line = 0;  // from 1; of a list, the number of the element
};

struct ChatFile {
  std::string form;  // messages, conversations, instruction, prompt, text
  std::vector<ChatExample> examples;
  std::vector<std::string> remarks;  // what was left out, in words
};

struct ChatFileOptions {
  bool skip_bad = false;
};

ChatFile read_chat_file(const std::string& path, const ChatFileOptions& options = {});
// The same of text in memory; `path` stands in errors, and its ending says what it holds.
ChatFile parse_chat_file(std::string_view text, const std::string& path, const ChatFileOptions& options = {});

// Two answers to one question, of which the first is preferred.
struct PreferencePair {
  ChatExample chosen, rejected;
};

struct PreferenceFile {
  std::vector<PreferencePair> pairs;
  std::vector<std::string> remarks;
};

// Lines {"prompt", "chosen", "rejected"}: texts, or lists of messages; without a prompt `chosen` and `rejected` are
// whole conversations, which differ in the last answer. Errors and options as above.
PreferenceFile read_preferences(const std::string& path, const ChatFileOptions& options = {});
PreferenceFile parse_preferences(std::string_view text, const std::string& path, const ChatFileOptions& options = {});

}  // namespace heddle::data
