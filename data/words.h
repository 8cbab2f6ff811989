// Words: how GPT-2 cuts text before pairs are merged.
//
// The pattern, in the syntax of regular expressions with Unicode properties:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Before that, digits may be cut out, each a word of its own, as SmolLM's and StarCoder's vocabularies want it.
// Radford et al. 2019; github.com/openai/gpt-2, src/encoder.py. Classes of characters: data/unicode.h.
// Invariants: the words, joined, are the text, whatever its bytes. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle::data {

enum class WordRule : uint8_t { gpt2, digits_apart };

// The first word of a text that is not empty.
std::string_view first_word(std::string_view text);

// Calls f(word) for every word, in order.
template <class F>
void for_each_word(std::string_view text, F&& f) {
  while (!text.empty()) {
    const std::string_view word = first_word(text);
    f(word);
    text.remove_prefix(word.size());
  }
}

// Where the first character of \p{N} begins, and its bytes; the text's end and 0 where there is none.
struct Digit {
  size_t at, bytes;
};
Digit first_digit(std::string_view text);

// The same by a rule.
template <class F>
void for_each_word(std::string_view text, WordRule rule, F&& f) {
  if (rule == WordRule::gpt2) return for_each_word(text, f);
  while (!text.empty()) {
    const Digit digit = first_digit(text);
    for_each_word(text.substr(0, digit.at), f);
    if (digit.bytes > 0) f(text.substr(digit.at, digit.bytes));
    text.remove_prefix(digit.at + digit.bytes);
  }
}

}  // namespace heddle::data
