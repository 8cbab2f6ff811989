#include "heddle/data/words.h"

#include <array>

#include "heddle/data/unicode.h"

namespace heddle::data {
namespace {

// Where the run of characters of that class ends that begins at `at`; last: where its last character begins.
struct Run {
  size_t end, last;
};
Run run_of(CharacterClass kind, std::string_view text, size_t at) {
  Run run{at, at};
  while (run.end < text.size()) {
    const Character c = character_at(text, run.end);
    if (class_of(c.code) != kind) break;
    run.last = run.end;
    run.end += c.bytes;
  }
  return run;
}

// Bytes of the contraction that the text begins with; 0: none.
size_t contraction(std::string_view text) {
  constexpr std::array<std::string_view, 7> all = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (const std::string_view c : all) {
    if (text.substr(0, c.size()) == c) return c.size();
  }
  return 0;
}

}  // namespace

std::string_view first_word(std::string_view text) {
  if (text.front() == '\'') {
    if (const size_t bytes = contraction(text)) return text.substr(0, bytes);
  }
  const size_t behind_space = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = class_of(character_at(text, behind_space).code);
  if (kind != CharacterClass::space) return text.substr(0, run_of(kind, text, behind_space).end);
  // A run of white space leaves its last character to the word behind it.
  const Run run = run_of(kind, text, 0);
  return text.substr(0, run.end < text.size() && run.last > 0 ? run.last : run.end);
}

Digit first_digit(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (class_of(c.code) == CharacterClass::number) return {at, c.bytes};
    at += c.bytes;
  }
  return {at, 0};
}

}  // namespace heddle::data
