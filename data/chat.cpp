#include "heddle/data/chat.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/chat_records.h"
#include "heddle/data/unicode.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

using Json = nlohmann::json;

ChatFile one_text(std::string_view text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.code < 0) throw IoError(fmt::format("[chat] {}: byte {} is no UTF-8", path, at));
    at += c.bytes;
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw IoError(fmt::format("[chat] {}: the text is empty", path));
  ChatFile file;
  file.form = "text";
  file.examples.push_back({{}, std::string(text), 1});
  return file;
}

void remark_questions(int64_t count, std::vector<std::string>& remarks) {
  if (count > 0)
    remarks.push_back(fmt::format("{} example{} with a question that has no answer: these are left out", count,
                                  count == 1 ? " ends" : "s end"));
}

// Both answers are of one question.
PreferencePair pair_of_record(const Json& record) {
  if (!record.is_object()) throw detail::BadRecord{"the record is no object"};
  PreferencePair pair;
  const auto prompt = record.find("prompt");
  if (prompt != record.end() && !prompt->is_null())
    pair.chosen.turns = pair.rejected.turns = detail::turns_of_value(*prompt, "prompt", "user");
  for (const char* key : {"chosen", "rejected"}) {
    const auto answer = record.find(key);
    if (answer == record.end()) throw detail::BadRecord{fmt::format("there is no '{}'", key)};
    auto& turns = key[0] == 'c' ? pair.chosen.turns : pair.rejected.turns;
    auto more = detail::turns_of_value(*answer, key, "assistant");
    if (!more.empty() && more[0].role != "assistant") turns.clear();  // a whole conversation, the prompt in it
    for (ChatTurn& turn : more) turns.push_back(std::move(turn));
    if (turns.empty() || turns[0].role == "assistant") throw detail::BadRecord{"there is no 'prompt'"};
    if (detail::check_turns(turns)) throw detail::BadRecord{fmt::format("'{}' ends with a question", key)};
  }
  return pair;
}

// Turns but for the last are the same, and that differs.
void check_pair(const PreferencePair& pair) {
  const auto &a = pair.chosen.turns, &b = pair.rejected.turns;
  bool is_same = a.size() == b.size();
  for (size_t i = 0; is_same && i + 1 < a.size(); ++i) is_same = a[i].role == b[i].role && a[i].content == b[i].content;
  if (!is_same) throw detail::BadRecord{"'chosen' and 'rejected' answer different questions"};
  if (a.back().content == b.back().content) throw detail::BadRecord{"'chosen' and 'rejected' are the same"};
}

}  // namespace

ChatFile parse_chat_file(std::string_view text, const std::string& path, const ChatFileOptions& options) {
  if (!detail::is_json_file(path)) return one_text(text, path);
  ChatFile file;
  int64_t questions = 0;
  detail::for_each_record(text, path, options, file.remarks, [&](const Json& record, int64_t line) {
    if (file.form.empty()) file.form = detail::form_of_record(record);
    ChatExample example = detail::example_of_record(record, file.form);
    if (file.form != "text") questions += detail::check_turns(example.turns);
    example.line = line;
    file.examples.push_back(std::move(example));
  });
  remark_questions(questions, file.remarks);
  if (file.examples.empty())
    throw IoError(fmt::format("[chat] {}: there is no example{}{}", path, file.remarks.empty() ? "" : ": ",
                              file.remarks.empty() ? "" : file.remarks[0]));
  return file;
}

ChatFile read_chat_file(const std::string& path, const ChatFileOptions& options) {
  return parse_chat_file(read_text_file(path, "chat"), path, options);
}

PreferenceFile parse_preferences(std::string_view text, const std::string& path, const ChatFileOptions& options) {
  PreferenceFile file;
  detail::for_each_record(text, path, options, file.remarks, [&](const Json& record, int64_t line) {
    PreferencePair pair = pair_of_record(record);
    check_pair(pair);
    pair.chosen.line = pair.rejected.line = line;
    file.pairs.push_back(std::move(pair));
  });
  if (file.pairs.empty())
    throw IoError(fmt::format("[chat] {}: there is no pair{}{}", path, file.remarks.empty() ? "" : ": ",
                              file.remarks.empty() ? "" : file.remarks[0]));
  return file;
}

PreferenceFile read_preferences(const std::string& path, const ChatFileOptions& options) {
  return parse_preferences(read_text_file(path, "chat"), path, options);
}

}  // namespace heddle::data
