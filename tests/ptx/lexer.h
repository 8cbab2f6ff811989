// Words of PTX text.
//
// Purpose: cuts the text into names (an opcode with its modifiers is one, `%tid.x` too), numbers, strings and signs;
// comments go. Invariants: the views point into the text. Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::ptx {

struct Token {
  enum class Kind { name, integer, f32, f64, string, sign, end };
  Kind kind = Kind::end;
  std::string_view text;
  uint64_t bits = 0;  // of a number
  int line = 0;
};

// Throws PtxError. The last token is of kind `end`.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace heddle::ptx
