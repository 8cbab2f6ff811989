// Words: how GPT-2 cuts text before pairs are merged.
//
// The pattern, in the syntax of regular expressions with Unicode properties:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Radford et al. 2019; github.com/openai/gpt-2, src/encoder.py. Classes of characters: data/unicode.h.
// Invariants: the words, joined, are the text, whatever its bytes. Thread safety: pure functions.
#pragma once

#include <string_view>

namespace heddle::data {

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

}  // namespace heddle::data
