// Texts that are numbers and nothing else, read and written the same in every locale. Thread safety: pure.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace heddle {

// The whole text as a number, whatever the locale; nothing when it is none, when anything is left over, or when it is
// out of T's range. `how`: std::chars_format for a floating-point T, the base for a whole one.
template <class T, class... How>
std::optional<T> parse_number(std::string_view text, How... how) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, how...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What printf's %a writes in the locale "C" ("0x1.8p+1", "-0x1p-3", "inf"), or a decimal number.
inline std::optional<double> parse_hex_float(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative ? 1 : 0);
  const bool hex = digits.starts_with("0x");
  if (digits.starts_with('-')) return std::nullopt;
  const std::optional<double> size =
      hex ? parse_number<double>(digits.substr(2), std::chars_format::hex) : parse_number<double>(digits);
  if (!size) return std::nullopt;
  return negative ? -*size : *size;
}

}  // namespace heddle
