#include "heddle/core/base/json_walk.h"

#include <fmt/format.h>

#include <set>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/parse_number.h"

namespace heddle {
namespace {

// Bytes of the character that begins a text; 0: it is not UTF-8.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t count = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, halves of pairs, and beyond the last one.
  const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                     (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : count;
}

void append_utf8(unsigned code, std::string& into) {
  const auto put = [&](unsigned byte) { into.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
  if (code < 0x10000) return put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
  put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// As JSON writes numbers; more than C++ reads, which knows nan, and less.
bool is_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t before = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > before;
  };
  const auto one_of = [&](std::string_view set) {
    const bool held = at < text.size() && set.find(text[at]) != std::string_view::npos;
    at += held;
    return held;
  };
  one_of("-");
  const size_t first = at;
  if (!digits() || (text[first] == '0' && at > first + 1)) return false;
  if (one_of(".") && !digits()) return false;
  if (one_of("eE") && (one_of("+-"), !digits())) return false;
  return at == text.size();
}

}  // namespace

void JsonWalk::fail(std::string_view expected) const {
  throw_not_json(what_, fmt::format("byte {}: expected {}", at_, expected));
}

void JsonWalk::check(std::string_view text, std::string_view what) {
  if (const std::string fault = json_depth_fault(text); !fault.empty()) throw_not_json(what, fault);
  JsonWalk walk(text, what);
  walk.skip_value();
  walk.skip_space();
  if (walk.at_ != text.size()) walk.fail("nothing more");
}

JsonWalk::Kind JsonWalk::next() const {
  JsonWalk ahead = *this;
  ahead.skip_space();
  const char c = ahead.peek();
  return c == '{' ? Kind::object : c == '[' ? Kind::list : c == '"' ? Kind::text : Kind::other;
}

void JsonWalk::skip_space() {
  while (at_ < text_.size() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
}

bool JsonWalk::try_take(char c) {
  skip_space();
  if (peek() != c) return false;
  ++at_;
  return true;
}

void JsonWalk::take(char c) {
  if (!try_take(c)) fail(fmt::format("'{}'", c));
}

// Whether another element follows.
bool JsonWalk::take_comma(char end) {
  if (try_take(',')) return true;
  take(end);
  return false;
}

void JsonWalk::skip_value() {
  switch (next()) {
    case Kind::object: {
      std::set<std::string> seen;
      return object([&](const std::string& name) {
        if (!seen.insert(name).second) throw_duplicate_key(what_, name);
        skip_value();
      });
    }
    case Kind::list:
      return list([&] { skip_value(); });
    case Kind::text:
      return static_cast<void>(text());
    case Kind::other:
      return skip_other();
  }
}

void JsonWalk::skip_other() {
  skip_space();
  size_t end = at_;
  while (end < text_.size() && (is_ascii_letter(text_[end]) || is_digit(text_[end]) || text_[end] == '-' ||
                                text_[end] == '+' || text_[end] == '.'))
    ++end;
  const std::string_view token = text_.substr(at_, end - at_);
  if (token != "true" && token != "false" && token != "null" && !is_number(token)) fail("a value");
  at_ = end;
}

std::string_view JsonWalk::raw() {
  skip_space();
  const size_t begin = at_;
  skip_value();
  return text_.substr(begin, at_ - begin);
}

std::optional<uint64_t> JsonWalk::whole(std::string_view raw) {
  if (raw.empty() || !is_digit(raw[0])) return std::nullopt;
  return parse_number<uint64_t>(raw);
}

std::string JsonWalk::text() {
  take('"');
  std::string made;
  while (peek() != '"') {
    if (at_ >= text_.size() || static_cast<unsigned char>(peek()) < 0x20) fail("'\"'");
    if (peek() == '\\') {
      append_escape(made);
      continue;
    }
    const size_t bytes = character_bytes(text_.substr(at_));
    if (bytes == 0) fail("UTF-8");
    made += text_.substr(at_, bytes);
    at_ += bytes;
  }
  ++at_;
  return made;
}

unsigned JsonWalk::hex4() {
  const auto code = at_ + 4 <= text_.size() ? parse_number<unsigned>(text_.substr(at_, 4), 16) : std::nullopt;
  if (!code) fail("four hexadecimal digits");
  at_ += 4;
  return *code;
}

void JsonWalk::append_escape(std::string& into) {
  constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  ++at_;
  const char name = peek();
  ++at_;
  if (const size_t found = names.find(name); found != std::string_view::npos) return into.push_back(meant[found]);
  if (name != 'u') fail("an escape");
  unsigned code = hex4();
  if (code >= 0xdc00 && code < 0xe000) fail("the first half of a pair");
  if (code >= 0xd800 && code < 0xdc00) {
    if (text_.substr(at_, 2) != "\\u") fail("the second half of a pair");
    at_ += 2;
    const unsigned low = hex4();
    if (low < 0xdc00 || low >= 0xe000) fail("the second half of a pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(code, into);
}

}  // namespace heddle
