// UTF-8 and the properties of characters that text is cut by.
//
// The tables are utf8proc's (general categories; Unicode 15.0 as Debian 12 packages it); white space is the property
// White_Space, which categories do not say. A build without utf8proc (cmake/codecs.cmake) throws ValueError, which
// names it, when class_of or case_of is asked for a character beyond ASCII that is no space, and when a text with
// characters from U+0300 on is to be composed. Invariants: bytes that are no UTF-8
// are characters of their own, of one byte and class `other`, so that any bytes can be cut and joined. Thread safety:
// pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "heddle/core/base/utf8.h"

namespace heddle::data {

enum class CharacterClass : uint8_t { letter, number, space, other };

using heddle::Character;
using heddle::character_at;
using heddle::utf8;

// Letter: categories L*; number: N*.
CharacterClass class_of(int32_t code);
// Case, as patterns that cut at capitals know it: upper: categories Lu and Lt; lower: Ll; both: Lm, Lo and the marks
// M*.
enum class CharacterCase : uint8_t { upper, lower, both, none };
CharacterCase case_of(int32_t code);
// The text in normalisation form C (Unicode Standard Annex 15); bytes that are no UTF-8 stay where they are. Work grows
// with the text's length, however many marks stand in a row.
std::string composed(std::string_view text);
// How many bytes of `text` are whole characters: what is behind could be the beginning of one.
size_t whole_characters(std::string_view text);
// The text with U+FFFD in place of each byte that is no UTF-8.
std::string valid_utf8(std::string_view text);
// "'ü' (U+00FC)", "U+000A", "byte 0xFF": of the character that begins at `at`.
std::string describe_character(std::string_view text, size_t at);

}  // namespace heddle::data
