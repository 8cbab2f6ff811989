// Text inside SVG and HTML. Thread safety: pure.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

// With < > & and " written as entities: safe between tags and in quoted attributes.
inline std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

}  // namespace heddle
