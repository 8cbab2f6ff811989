#include "heddle/data/chat_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"

namespace heddle::data::detail {
namespace {

using Json = nlohmann::json;

constexpr size_t longest_line = size_t{16} << 20, most_turns = 4096;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

// Counts bad records and remembers the first.
class Faults {
 public:
  Faults(const std::string& path, const ChatFileOptions& options, const char* what)
      : path_(path), options_(options), what_(what) {}

  template <class F>
  void guard(int64_t number, const F& f) {
    ++records_;
    try {
      f();
    } catch (const BadRecord& bad) {
      note(number, bad.reason);
    } catch (const IoError& error) {  // no JSON
      note(number, error.what());
    }
  }

  void finish(std::vector<std::string>& remarks) const {
    if (bad_ > 0)
      remarks.push_back(
          fmt::format("{} of {} {}s left out: {}{}", bad_, records_, what_, first_, bad_ > shown ? "; ..." : ""));
  }

 private:
  static constexpr int64_t shown = 3;

  void note(int64_t number, const std::string& reason) {
    const std::string place = fmt::format("{} {}: {}", what_, number, shortened(reason, 160));
    if (!options_.skip_bad) throw IoError(fmt::format("[chat] {}: {}", path_, place));
    if (++bad_ <= shown) first_ += (first_.empty() ? "" : "; ") + place;
  }

  const std::string& path_;
  const ChatFileOptions& options_;
  const char* what_;
  int64_t records_ = 0, bad_ = 0;
  std::string first_;
};

Json record_of_line(std::string_view line) {
  if (is_blank(line)) throw BadRecord{"the line is empty"};
  if (line.size() > longest_line)
    throw BadRecord{fmt::format("the line has {} bytes, expected at most {}", line.size(), longest_line)};
  return parse_json(line, "the line");
}

const Json* find(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() || found->is_null() ? nullptr : &*found;
}

// OpenAI's content may be a list of parts.
std::string text_of_parts(const Json& parts, const char* key) {
  std::string text;
  for (const Json& part : parts) {
    const Json* inner = part.is_object() ? find(part, "text") : nullptr;
    if (inner == nullptr || !inner->is_string()) throw BadRecord{fmt::format("'{}' has a part that is no text", key)};
    text += inner->get_ref<const std::string&>();
  }
  return text;
}

std::string text_at(const Json& record, const char* key) {
  const Json* found = find(record, key);
  if (found == nullptr) throw BadRecord{fmt::format("there is no '{}'", key)};
  if (found->is_array()) return text_of_parts(*found, key);
  if (!found->is_string()) throw BadRecord{fmt::format("'{}' is no text", key)};
  return *found;
}

// The first of these keys that is there.
const char* one_of(const Json& record, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (find(record, key) != nullptr) return key;
  return *keys.begin();
}

std::string role_of(const std::string& name) {
  if (name == "user" || name == "human") return "user";
  if (name == "assistant" || name == "gpt" || name == "model" || name == "bot" || name == "chatgpt") return "assistant";
  if (name == "system" || name == "developer") return "system";
  throw BadRecord{
      fmt::format("the role '{}' is not known: expected system, user (human) or assistant (gpt)", shortened(name, 40))};
}

ChatTurn turn_of(const Json& message) {
  if (!message.is_object()) throw BadRecord{"a turn is no object"};
  const std::string role = role_of(text_at(message, one_of(message, {"role", "from"})));
  ChatTurn turn{role, text_at(message, one_of(message, {"content", "value"}))};
  if (const Json* weight = find(message, "weight")) {
    if (*weight != 0 && *weight != 1) throw BadRecord{"'weight' is neither 0 nor 1"};
    turn.trained = *weight == 1;
  }
  return turn;
}

std::vector<ChatTurn> turns_of_list(const Json& list, const char* key) {
  if (!list.is_array()) throw BadRecord{fmt::format("'{}' is no list", key)};
  if (list.size() > most_turns)
    throw BadRecord{fmt::format("there are {} turns, expected at most {}", list.size(), most_turns)};
  std::vector<ChatTurn> turns;
  for (const Json& message : list) turns.push_back(turn_of(message));
  return turns;
}

std::vector<ChatTurn> turns_of_instruction(const Json& record) {
  std::vector<ChatTurn> turns;
  if (find(record, "system") != nullptr) {
    if (std::string system = text_at(record, "system"); !is_blank(system)) turns.push_back({"system", system});
  }
  std::string question = text_at(record, "instruction");
  const char* input = one_of(record, {"input", "context"});
  if (find(record, input) != nullptr) {
    if (const std::string text = text_at(record, input); !is_blank(text)) question += "\n\n" + text;
  }
  turns.push_back({"user", std::move(question)});
  turns.push_back({"assistant", text_at(record, one_of(record, {"output", "response"}))});
  return turns;
}

void for_each_line(std::string_view text, Faults& faults, const Callable<void(const Json&, int64_t)>& f) {
  while (!text.empty() && is_blank(text.substr(text.size() - 1))) text.remove_suffix(1);
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    faults.guard(number, [&] { f(record_of_line(line), number); });
  }
}

void for_each_element(std::string_view text, const std::string& path, Faults& faults,
                      const Callable<void(const Json&, int64_t)>& f) {
  const Json list = parse_json(text, fmt::format("[chat] {}", path));
  int64_t number = 0;
  for (const Json& record : list) {
    ++number;
    faults.guard(number, [&] { f(record, number); });
  }
}

}  // namespace

void for_each_record(std::string_view text, const std::string& path, const ChatFileOptions& options,
                     std::vector<std::string>& remarks, const Callable<void(const Json& record, int64_t line)>& f) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_list = first != std::string_view::npos && text[first] == '[';
  Faults faults(path, options, is_list ? "element" : "line");
  if (is_list)
    for_each_element(text, path, faults, f);
  else
    for_each_line(text, faults, f);
  faults.finish(remarks);
}

bool is_json_file(const std::string& path) {
  std::string ending = fs::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return ending == ".jsonl" || ending == ".json";
}

std::string form_of_record(const Json& record) {
  if (!record.is_object()) throw BadRecord{"the record is no object"};
  static constexpr std::array<std::array<const char*, 2>, 5> keys = {{{"messages", "messages"},
                                                                      {"conversations", "conversations"},
                                                                      {"instruction", "instruction"},
                                                                      {"prompt", "prompt"},
                                                                      {"text", "text"}}};
  for (const auto& [key, form] : keys)
    if (find(record, key) != nullptr) return form;
  throw BadRecord{"the record has none of messages, conversations, instruction, prompt and text"};
}

ChatExample example_of_record(const Json& record, const std::string& form) {
  if (!record.is_object()) throw BadRecord{"the record is no object"};
  if (find(record, form.c_str()) == nullptr)
    throw BadRecord{fmt::format("there is no '{}', which the first record has", form)};
  ChatExample example;
  if (form == "text") {
    example.text = text_at(record, "text");
    if (is_blank(example.text)) throw BadRecord{"the text is empty"};
  } else if (form == "instruction") {
    example.turns = turns_of_instruction(record);
  } else if (form == "prompt") {
    example.turns = turns_of_value(record["prompt"], "prompt", "user");
    const char* key = one_of(record, {"completion", "response"});
    const Json* answer = find(record, key);
    if (answer == nullptr) throw BadRecord{fmt::format("there is no '{}'", key)};
    for (ChatTurn& turn : turns_of_value(*answer, key, "assistant")) example.turns.push_back(std::move(turn));
  } else {
    example.turns = turns_of_list(record[form], form.c_str());
  }
  return example;
}

std::vector<ChatTurn> turns_of_value(const Json& value, const char* key, const char* role) {
  if (value.is_string()) return {{role, value}};
  return turns_of_list(value, key);
}

bool check_turns(std::vector<ChatTurn>& turns) {
  bool took_off = false;
  while (!turns.empty() && turns.back().role == "user") {
    turns.pop_back();
    took_off = true;
  }
  if (turns.empty() || turns.back().role != "assistant") throw BadRecord{"there is no answer"};
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role == "system" && i > 0) throw BadRecord{fmt::format("turn {} is a system's, not the first", i + 1)};
    if (turns[i].role != "system" && is_blank(turns[i].content))
      throw BadRecord{fmt::format("turn {}: the {} is empty", i + 1, turns[i].role == "user" ? "question" : "answer")};
  }
  return took_off;
}

}  // namespace heddle::data::detail
