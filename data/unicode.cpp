#include "heddle/data/unicode.h"

#include <fmt/format.h>
#ifdef HEDDLE_HAS_UTF8PROC
#include <utf8proc.h>
#endif

#include <algorithm>
#include <array>

#include "heddle/core/base/error.h"

namespace heddle::data {
namespace {

// White_Space in Unicode's PropList.txt.
bool is_space(int32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  constexpr std::array<int32_t, 8> others = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return (code >= 0x2000 && code <= 0x200A) || std::find(others.begin(), others.end(), code) != others.end();
}

CharacterClass ascii_class(int32_t code) {
  if (is_space(code)) return CharacterClass::space;
  if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return CharacterClass::letter;
  return code >= '0' && code <= '9' ? CharacterClass::number : CharacterClass::other;
}

#ifndef HEDDLE_HAS_UTF8PROC
[[noreturn]] void refuse_without_tables(int32_t code) {
  throw ValueError(
      fmt::format("[unicode] U+{:04X}: this build of Heddle has no utf8proc, whose tables say what is a letter beyond "
                  "ASCII; install libutf8proc-dev "
                  "and build again",
                  code));
}
#endif

// Of characters that are neither ASCII nor space.
CharacterClass category_class([[maybe_unused]] int32_t code) {
#ifdef HEDDLE_HAS_UTF8PROC
  const utf8proc_category_t category = utf8proc_category(code);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return CharacterClass::letter;
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO ? CharacterClass::number
                                                                              : CharacterClass::other;
#else
  refuse_without_tables(code);
#endif
}

CharacterCase category_case([[maybe_unused]] int32_t code) {
#ifdef HEDDLE_HAS_UTF8PROC
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return CharacterCase::upper;
    case UTF8PROC_CATEGORY_LL:
      return CharacterCase::lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharacterCase::both;
    default:
      return CharacterCase::none;
  }
#else
  refuse_without_tables(code);
#endif
}

}  // namespace

CharacterClass class_of(int32_t code) {
  if (code < 0) return CharacterClass::other;
  if (code < 0x80) return ascii_class(code);
  return is_space(code) ? CharacterClass::space : category_class(code);
}

CharacterCase case_of(int32_t code) {
  if (code >= 0x80) return category_case(code);
  if (code >= 'a' && code <= 'z') return CharacterCase::lower;
  return code >= 'A' && code <= 'Z' ? CharacterCase::upper : CharacterCase::none;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code < 0)
      valid += utf8(0xFFFD);
    else
      valid += text.substr(at, character.bytes);
    at += character.bytes;
  }
  return valid;
}

size_t whole_characters(std::string_view text) {
  constexpr size_t longest = 4;
  for (size_t back = 1; back <= std::min(longest, text.size()); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // a continuation
    const size_t wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return back < wanted ? text.size() - back : text.size();
  }
  return text.size();
}

std::string describe_character(std::string_view text, size_t at) {
  const Character c = character_at(text, at);
  if (c.code < 0) return fmt::format("byte 0x{:02X}", static_cast<uint8_t>(text[at]));
  const bool control = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0);
  return control ? fmt::format("U+{:04X}", c.code) : fmt::format("'{}' (U+{:04X})", text.substr(at, c.bytes), c.code);
}

}  // namespace heddle::data
