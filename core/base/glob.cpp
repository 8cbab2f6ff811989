#include "heddle/core/base/glob.h"

#include <cstddef>

namespace heddle {
namespace {

bool within(char first, char c, char last) {
  const auto number = [](char one) { return static_cast<unsigned char>(one); };
  return number(first) <= number(c) && number(c) <= number(last);
}

// Whether the set at pattern[at], which is '[', holds c; `at` moves behind it. Without an end it is the character '['.
bool in_set(std::string_view pattern, size_t& at, char c) {
  size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (const size_t first = i; i < pattern.size() && (pattern[i] != ']' || i == first);) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    const char low = pattern[i++];
    char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      if (pattern[++i] == '\\' && i + 1 < pattern.size()) ++i;
      high = pattern[i++];
    }
    found = found || within(low, c, high);
  }
  if (i >= pattern.size()) {
    ++at;
    return c == '[';
  }
  at = i + 1;
  return found != negated;
}

// One character of the pattern, no star; `at` moves behind it.
bool fits_one(std::string_view pattern, size_t& at, char c) {
  if (pattern[at] == '[') return in_set(pattern, at, c);
  if (pattern[at] == '?') {
    ++at;
    return true;
  }
  if (pattern[at] == '\\' && ++at == pattern.size()) return false;
  return pattern[at++] == c;
}

}  // namespace

// The last star takes one character more whenever what follows it does not fit: what earlier stars took stays right.
bool fits_pattern(std::string_view name, std::string_view pattern) {
  constexpr size_t none = std::string_view::npos;
  size_t n = 0, p = 0, behind_star = none, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      behind_star = ++p;
      taken = n;
    } else if (p < pattern.size() && fits_one(pattern, p, name[n])) {
      ++n;
    } else if (behind_star != none) {
      p = behind_star;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace heddle
