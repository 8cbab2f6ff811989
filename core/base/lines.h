// Texts line by line. Thread safety: pure function; what it gives points into what it was given.
#pragma once

#include <string_view>

namespace heddle {

// The first line of `rest`, without its end; `rest` loses both.
inline std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

}  // namespace heddle
