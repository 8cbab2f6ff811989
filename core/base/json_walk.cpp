#include "heddle/core/base/json_walk.h"

#include <fmt/format.h>

#include <set>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/utf8.h"

namespace heddle {
namespace {

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
    const Character c = character_at(text_, at_);
    if (c.code < 0) fail("UTF-8");
    made += text_.substr(at_, c.bytes);
    at_ += c.bytes;
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
  into += utf8(static_cast<int32_t>(code));
}

}  // namespace heddle
