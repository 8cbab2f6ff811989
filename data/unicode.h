// UTF-8 and the properties of characters that text is cut by.
//
// The tables are utf8proc's (general categories; Unicode 15.0 as Debian 12 packages it); white space is the property
// White_Space, which categories do not say. A build without utf8proc (cmake/codecs.cmake) throws ValueError, which
// names it, when class_of is asked for a character beyond ASCII that is no space. Invariants: bytes that are no UTF-8
// are characters of their own, of one byte and class `other`, so that any bytes can be cut and joined. Thread safety:
// pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::data {

enum class CharacterClass : uint8_t { letter, number, space, other };

struct Character {
  int32_t code = -1;  // code point; -1: a byte that is no UTF-8
  uint8_t bytes = 1;
};

// The character that begins at `at` < text.size().
Character character_at(std::string_view text, size_t at);
// Letter: categories L*; number: N*.
CharacterClass class_of(int32_t code);
// A code point as UTF-8.
std::string utf8(int32_t code);
// How many bytes of `text` are whole characters: what is behind could be the beginning of one.
size_t whole_characters(std::string_view text);
// The text with U+FFFD in place of each byte that is no UTF-8.
std::string valid_utf8(std::string_view text);
// "'ü' (U+00FC)", "U+000A", "byte 0xFF": of the character that begins at `at`.
std::string describe_character(std::string_view text, size_t at);

}  // namespace heddle::data
