// The rules of GPT-4, Llama 3, Qwen 2 and their like, matched by hand, and the texts by which they are known.
#include <algorithm>
#include <array>
#include <optional>

#include "heddle/data/unicode.h"
#include "heddle/data/words.h"

namespace heddle::data {
namespace {

// What the expressions differ in.
struct Pattern {
  WordRule rule;
  std::string_view text;
  bool contractions;  // words of their own; by_case: behind a word, part of it
  bool by_case;       // capitals, then small letters
  size_t digits;      // at most so many in a word
  bool slashes;       // behind signs, as line breaks are
};

constexpr std::array<Pattern, 5> patterns = {{
    {WordRule::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", false, false, 0,
     false},
    {WordRule::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     true, false, 3, false},
    {WordRule::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     true, false, 1, false},
    {WordRule::gpt4o,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     true, true, 3, true},
    {WordRule::tekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     false, true, 1, true},
}};

// tiktoken's spelling of GPT-4's rule: possessive, and otherwise the same words.
constexpr std::string_view gpt4_of_tiktoken =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

const Pattern& pattern_with(WordRule rule) {
  return *std::find_if(patterns.begin(), patterns.end(), [&](const Pattern& pattern) { return pattern.rule == rule; });
}

bool is_break(int32_t code) { return code == '\r' || code == '\n'; }

// The end of the characters from `at` on that satisfy f.
template <class F>
size_t end_of(std::string_view text, size_t at, F&& f) {
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (!f(c.code)) break;
    at += c.bytes;
  }
  return at;
}

// Matches one word at the text's beginning. Each function gives the match's end, or nothing.
class Match {
 public:
  Match(std::string_view text, const Pattern& pattern)
      : text_(text), pattern_(pattern), first_(character_at(text, 0)), kind_(class_of(first_.code)) {}

  size_t end() const {
    if (pattern_.contractions && !pattern_.by_case) {
      if (const size_t bytes = contraction(0)) return bytes;
    }
    if (const auto end = word()) return *end;
    if (kind_ == CharacterClass::number) return number();
    if (const auto end = signs()) return *end;
    return space();
  }

 private:
  using End = std::optional<size_t>;

  // (?i:'s|'t|'re|'ve|'m|'ll|'d); the long s U+017F is an s where case does not count. 0: none is there.
  size_t contraction(size_t at) const {
    if (text_.substr(at, 1) != "'") return 0;
    const auto letter = [&](size_t i) {
      const char c = at + i < text_.size() ? text_[at + i] : '\0';
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(1), second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (text_.substr(at + 1, 2) == "\u017F") return 3;
    return (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l') ? 3
                                                                                                                 : 0;
  }

  // One character that is neither line break, letter nor number may stand in front of the letters.
  bool may_precede() const {
    return !is_break(first_.code) && kind_ != CharacterClass::letter && kind_ != CharacterClass::number;
  }

  End word() const { return pattern_.by_case ? cased_word() : plain_word(); }

  End plain_word() const {
    if (kind_ != CharacterClass::letter && !may_precede()) return {};
    const size_t begin = kind_ == CharacterClass::letter ? 0 : first_.bytes;
    const size_t end = end_of(text_, begin, [](int32_t code) { return class_of(code) == CharacterClass::letter; });
    return end > begin ? End(end) : End();
  }

  static bool is_upper(CharacterCase c) { return c == CharacterCase::upper || c == CharacterCase::both; }
  static bool is_lower(CharacterCase c) { return c == CharacterCase::lower || c == CharacterCase::both; }

  End cased_word() const {
    std::array<size_t, 2> begins = {first_.bytes, 0};
    const size_t skipped = may_precede() ? 0 : 1;
    for (const bool small : {true, false}) {
      for (size_t i = skipped; i < begins.size(); ++i) {
        if (const auto end = small ? ends_small(begins[i]) : capitals(begins[i]))
          return pattern_.contractions ? *end + contraction(*end) : *end;
      }
    }
    return {};
  }

  // [upper]*[lower]+: what is both goes to the capitals; where no small letter follows, the last one that is both does.
  End ends_small(size_t begin) const {
    size_t at = begin, last_both_end = 0;
    while (at < text_.size()) {
      const Character c = character_at(text_, at);
      const CharacterCase kind = case_of(c.code);
      if (!is_upper(kind)) break;
      at += c.bytes;
      if (kind == CharacterCase::both) last_both_end = at;
    }
    const size_t end = end_of(text_, at, [](int32_t code) { return is_lower(case_of(code)); });
    if (end > at) return end;
    return last_both_end > 0 ? End(last_both_end) : End();
  }

  // [upper]+, behind which no small letter stands, or ends_small() had matched.
  End capitals(size_t begin) const {
    const size_t end = end_of(text_, begin, [](int32_t code) { return is_upper(case_of(code)); });
    return end > begin ? End(end) : End();
  }

  size_t number() const {
    size_t count = 0;
    return end_of(text_, 0,
                  [&](int32_t code) { return class_of(code) == CharacterClass::number && count++ < pattern_.digits; });
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  End signs() const {
    const size_t begin = first_.code == ' ' ? 1 : 0;
    const size_t end = end_of(text_, begin, [](int32_t code) { return class_of(code) == CharacterClass::other; });
    if (end == begin) return {};
    return end_of(text_, end, [&](int32_t code) { return is_break(code) || (pattern_.slashes && code == '/'); });
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+: up to the last line break; else all but the last, which goes to the word behind.
  size_t space() const {
    size_t break_end = 0, last = 0, at = 0;
    while (at < text_.size()) {
      const Character c = character_at(text_, at);
      if (class_of(c.code) != CharacterClass::space) break;
      last = at;
      at += c.bytes;
      if (is_break(c.code)) break_end = at;
    }
    if (break_end > 0) return break_end;
    return at < text_.size() && last > 0 ? last : at;
  }

  std::string_view text_;
  const Pattern& pattern_;
  Character first_;
  CharacterClass kind_;
};

}  // namespace

std::optional<WordRule> rule_of_pattern(std::string_view pattern) {
  if (pattern == gpt4_of_tiktoken) return WordRule::llama3;
  for (const Pattern& known : patterns) {
    if (known.text == pattern) return known.rule;
  }
  return {};
}

std::string_view pattern_of(WordRule rule) { return pattern_with(rule).text; }

std::string_view first_word(std::string_view text, WordRule rule) {
  if (rule == WordRule::gpt2) return first_word(text);
  return text.substr(0, Match(text, pattern_with(rule)).end());
}

}  // namespace heddle::data
