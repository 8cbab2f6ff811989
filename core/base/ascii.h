// Classes of characters in texts that programs read (kernels, names, extensions): ASCII in every locale, unlike
// <cctype>. Thread safety: pure.
#pragma once

namespace heddle {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool starts_name(char c) { return is_ascii_letter(c) || c == '_'; }
constexpr bool continues_name(char c) { return starts_name(c) || is_ascii_digit(c); }
constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace heddle
