// Texts that are numbers and nothing else. Thread safety: pure.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace heddle {

// The whole text as a number, whatever the locale; nothing when it is none, when anything is left over, or when it is out of T's range.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace heddle
