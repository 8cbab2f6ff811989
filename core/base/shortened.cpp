#include "heddle/core/base/shortened.h"

#include <algorithm>

namespace heddle {

std::string shortened(std::string_view text, size_t most) {
  const bool whole = text.size() <= most;
  size_t end = whole ? text.size() : most;
  while (!whole && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  std::string line(text.substr(0, end));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return whole ? line : line + "...";
}

}  // namespace heddle
