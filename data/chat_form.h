// What a chat template writes, as plain data. Internal.
//
// Pieces are the template's own text; in them \x01 stands for what a tokenizer puts in front of any text, \x02 for the
// token that begins a text and \x03 for the one that ends it. Thread safety: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::data {

struct ChatForm {
  enum class System : uint8_t { own_turn, first_question, last_question };
  // joined: a question together with the system's text in front of it.
  enum class Trim : uint8_t { none, answers, questions_and_answers, with_system, joined };
  std::string name;
  std::string opening = {};
  System system = System::own_turn;
  std::string system_front = {}, system_back = {};  // around the system's text, in its turn or in the question
  std::string system_lead = {};                     // in front of any system's text, which is there always
  std::optional<std::string> default_system = {};   // a text where the conversation has none
  std::string question_front = {}, question_back = {};
  std::string answer_front = {};                  // not learned: the prompt ends with it
  std::string answer_lead = {}, answer_end = {};  // learned with the answer between them
  std::string answer_tail = {};                   // not learned
  std::string closing = {};                       // behind the last answer
  Trim trim = Trim::none;
  bool alternates = false;                        // the template refuses another order than question, answer
  std::optional<std::string> end_otherwise = {};  // for \x03 where the tokenizer has no such token
  std::vector<std::string> needs = {};            // special tokens
};

}  // namespace heddle::data
