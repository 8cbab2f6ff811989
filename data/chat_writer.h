// Tokens of a conversation as it is written: text and special tokens, one behind the other. Internal to data/.
//
// Purpose: a stretch of text between two special tokens is cut into tokens as a whole, whatever pieces it came in; a
// special token that takes the white space beside it does so. Errors: ValueError of the tokenizer. Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/chat_template.h"
#include "heddle/data/pipeline_tokenizer.h"

namespace heddle::data {

struct AddedToken;

// Without Unicode's white space on that side.
std::string_view trimmed_left(std::string_view text);
std::string_view trimmed_right(std::string_view text);

class ChatWriter {
 public:
  explicit ChatWriter(const Tokenizer& tokenizer);
  void text(std::string_view text, bool trained);
  void token(int32_t token, bool trained);
  ChatTokens finish();

 private:
  // Text whose tokens are made at once, between two special tokens.
  struct Run {
    struct Mark {
      size_t at;
      bool trained;  // from here on
    };
    std::string text;
    std::vector<Mark> marks;
    bool trims_left = false;  // the special token in front takes the white space
  };

  void put(int32_t token, bool trained);
  const AddedToken* added_of(int32_t token) const;
  std::vector<int32_t> encoded(std::string_view text) const;
  void end_run();

  const Tokenizer& tokenizer_;
  const PipelineTokenizer* pipeline_;
  Run run_;
  ChatTokens made_;
};

}  // namespace heddle::data
