// Records of chat files, and what is done with bad ones. Internal: it needs nlohmann's header.
//
// Errors: IoError "[chat] path: line N: reason". Thread safety: pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/data/chat.h"

namespace heddle::data::detail {

// What is wrong with one record; for_each_record() says where it is.
struct BadRecord {
  std::string reason;
};

// f(record, its number from 1) for each line of a JSON lines file, or element of a JSON list; f throws BadRecord. Bad
// ones are left out if that is allowed; then a remark says which.
void for_each_record(std::string_view text, const std::string& path, const ChatFileOptions& options,
                     std::vector<std::string>& remarks,
                     const Callable<void(const nlohmann::json& record, int64_t line)>& f);
bool is_json_file(const std::string& path);

// Which of ChatFile's forms an object has; BadRecord where none.
std::string form_of_record(const nlohmann::json& record);
// Turns, or text, of an object of that form; they may lack an answer.
ChatExample example_of_record(const nlohmann::json& record, const std::string& form);
// A text as one turn of `role`, or the turns of a list of messages.
std::vector<ChatTurn> turns_of_value(const nlohmann::json& value, const char* key, const char* role);
// Questions behind the last answer are taken off: true. BadRecord unless the turns are what data/chat.h says.
bool check_turns(std::vector<ChatTurn>& turns);

}  // namespace heddle::data::detail
