#include "tests/ptx/lexer.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "tests/ptx/fault.h"

namespace heddle::ptx {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%'; }
bool hex(char c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    while (skip()) {
      const char c = text_[at_];
      if (letter(c) || (c == '.' && at_ + 1 < text_.size() && letter(text_[at_ + 1])))
        name();
      else if (digit(c))
        number();
      else if (c == '"')
        quoted();
      else
        add(Token::Kind::sign, at_, at_ + 1);
    }
    add(Token::Kind::end, at_, at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw PtxError("[ptx] " + what + " (line " + std::to_string(line_) + ")");
  }

  void add(Token::Kind kind, size_t first, size_t end, uint64_t bits = 0) {
    tokens_.push_back({kind, text_.substr(first, end - first), bits, line_});
    at_ = end;
  }

  // To the next word; false at the end.
  bool skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == '\0') {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_);
        if (end == text_.npos) fail("a comment without an end");
        for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
      } else {
        return true;
      }
    }
    return false;
  }

  void name() {
    size_t end = at_ + 1;
    while (end < text_.size() && (letter(text_[end]) || digit(text_[end]) || text_[end] == '.' ||
                                  (text_[end] == ':' && end + 2 < text_.size() && text_.substr(end, 2) == "::")))
      end += text_[end] == ':' ? 2 : 1;
    add(Token::Kind::name, at_, end);
  }

  // 0f3F800000 and 0d3FF0000000000000 are the bits of a number, 0x1F and 31U integers.
  void number() {
    const char kind = at_ + 1 < text_.size() && text_[at_] == '0' ? text_[at_ + 1] : '\0';
    const bool floating = kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D';
    const bool wide = kind == 'd' || kind == 'D';
    const bool by_sixteen = floating || kind == 'x' || kind == 'X';
    size_t end = by_sixteen ? at_ + 2 : at_;
    const size_t first = end, longest = floating ? first + (wide ? 16 : 8) : text_.size();
    while (end < std::min(longest, text_.size()) && (by_sixteen ? hex(text_[end]) : digit(text_[end]))) ++end;
    if (!by_sixteen && end < text_.size() && text_[end] == '.') return decimal();
    uint64_t bits = 0;
    const auto read = std::from_chars(text_.data() + first, text_.data() + end, bits, by_sixteen ? 16 : 10);
    if (read.ec != std::errc() || read.ptr != text_.data() + end || (floating && end != longest)) fail("no number");
    if (!floating && end < text_.size() && text_[end] == 'U') ++end;
    add(!floating ? Token::Kind::integer : wide ? Token::Kind::f64 : Token::Kind::f32, at_, end, bits);
  }

  void decimal() {
    double value = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (read.ec != std::errc()) fail("no number");
    add(Token::Kind::f64, at_, static_cast<size_t>(read.ptr - text_.data()), std::bit_cast<uint64_t>(value));
  }

  void quoted() {
    const size_t end = text_.find('"', at_ + 1);
    if (end == text_.npos) fail("a string without an end");
    tokens_.push_back({Token::Kind::string, text_.substr(at_ + 1, end - at_ - 1), 0, line_});
    at_ = end + 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Lexer(text).all(); }

}  // namespace heddle::ptx
