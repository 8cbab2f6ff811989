// UTF-8: code points of texts, and texts of code points.
//
// Invariants: bytes that are no UTF-8 are characters of their own, of one byte. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

struct Character {
  int32_t code = -1;  // code point; -1: a byte that is no UTF-8
  uint8_t bytes = 1;
};

// The character that begins at `at` < text.size().
Character character_at(std::string_view text, size_t at);
// A code point as UTF-8; "" for a number that is none.
std::string utf8(int32_t code);

}  // namespace heddle
