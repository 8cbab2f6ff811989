// Words: how tokenizers cut text before pairs are merged.
//
// The rules are regular expressions of others, matched by hand over classes of characters (data/unicode.h):
//   gpt2     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//            Radford et al. 2019; github.com/openai/gpt-2, src/encoder.py
//   llama3   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//            \s+(?!\S)|\s+   (also GPT-4's)
//   qwen2    the same, with \p{N} alone
//   gpt4o, tekken   words that begin anew at capitals: data/word_patterns.cpp has the texts
// Invariants: the words, joined, are the text, whatever its bytes; time grows with the text's length. Thread safety:
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace heddle::data {

enum class WordRule : uint8_t { gpt2, llama3, qwen2, gpt4o, tekken };

// The rule of a regular expression, by its exact text; nothing for an unknown one.
std::optional<WordRule> rule_of_pattern(std::string_view pattern);
// The text by which tokenizer.json files write a rule.
std::string_view pattern_of(WordRule rule);

// The first word of a text that is not empty; by gpt2, or by any rule.
std::string_view first_word(std::string_view text);
std::string_view first_word(std::string_view text, WordRule rule);

// Calls f(word) for every word, in order.
template <class F>
void for_each_word(std::string_view text, WordRule rule, F&& f) {
  while (!text.empty()) {
    const std::string_view word = first_word(text, rule);
    f(word);
    text.remove_prefix(word.size());
  }
}
template <class F>
void for_each_word(std::string_view text, F&& f) {
  for_each_word(text, WordRule::gpt2, f);
}

// Where the first character of \p{N} begins, and its bytes; the text's end and 0 where there is none.
struct Digit {
  size_t at, bytes;
};
Digit first_digit(std::string_view text);

}  // namespace heddle::data
