// Normalisation form C.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/data/unicode.h"
#ifdef HEDDLE_HAS_UTF8PROC
#include <utf8proc.h>
#endif

namespace heddle::data {
namespace {

// Below U+0300 there are neither marks nor characters that are written otherwise.
bool is_composed(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.code >= 0x300) return false;
    at += c.bytes;
  }
  return true;
}

#ifdef HEDDLE_HAS_UTF8PROC
using Codes = std::vector<utf8proc_int32_t>;

void append_decomposed(int32_t code, Codes& codes) {
  std::array<utf8proc_int32_t, 32> parts;  // the longest canonical decomposition has 4
  int boundary = 0;
  const auto count = utf8proc_decompose_char(code, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
                                             UTF8PROC_DECOMPOSE, &boundary);
  if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size()))
    codes.push_back(code);
  else
    codes.insert(codes.end(), parts.begin(), parts.begin() + count);
}

// Marks in a row in canonical order. utf8proc's own sorting takes the square of their number.
void order_marks(Codes& codes) {
  const auto combining = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto first = std::find_if(at, codes.end(), [&](auto code) { return combining(code) != 0; });
    at = std::find_if(first, codes.end(), [&](auto code) { return combining(code) == 0; });
    std::stable_sort(first, at, [&](auto a, auto b) { return combining(a) < combining(b); });
  }
}

void append_composed(Codes& codes, std::string& out) {
  order_marks(codes);
  const auto count = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < count; ++i) out += utf8(codes[static_cast<size_t>(i)]);
  codes.clear();
}
#endif

}  // namespace

std::string composed(std::string_view text) {
  if (is_composed(text)) return std::string(text);
#ifdef HEDDLE_HAS_UTF8PROC
  std::string out;
  Codes codes;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.code < 0) {
      append_composed(codes, out);
      out += text[at];
    } else {
      append_decomposed(c.code, codes);
    }
    at += c.bytes;
  }
  append_composed(codes, out);
  return out;
#else
  throw ValueError(
      "[unicode] the text has to be composed (NFC), and this build of Heddle has no utf8proc, whose tables say how; "
      "install libutf8proc-dev and build again");
#endif
}

}  // namespace heddle::data
