#include "heddle/core/base/parse_json.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_limits.h"

namespace heddle {

// Counts brackets outside of strings. Up to the first error in the text it sees the strings that the parser sees;
// behind it nothing is parsed.
std::string json_depth_fault(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      at += c == '\\';
    } else if (c == '[' || c == '{') {
      if (++depth > max_parse_depth) return fmt::format("byte {}: brackets are more than {} deep", at, max_parse_depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return "";
}

void throw_not_json(std::string_view what, std::string_view reason) {
  throw IoError(fmt::format("{}: not JSON: {}", what, shortened(reason)));
}

void throw_duplicate_key(std::string_view what, std::string_view key) {
  throw IoError(fmt::format("{}: the name '{}' appears twice", what, shortened(key)));
}

}  // namespace heddle
