// evaluate_expression: the integer expressions in the headers of kernel files. A recursive-descent evaluator.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_limits.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {
namespace {

class Evaluator {
 public:
  Evaluator(std::string_view text, const Bindings& values, std::string_view where)
      : text_(text), values_(values), where_(where) {}

  int64_t run() {
    const int64_t value = disjunction();
    skip();
    if (at_ != text_.size()) fail(fmt::format("unexpected '{}'", text_.substr(at_, 1)));
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}: {} in '{}'", where_, what, shortened(text_)));
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("expected '{}'", token));
  }

  // One level of parentheses; those of a call too.
  void enter() {
    if (++depth_ > max_parse_depth)
      fail(fmt::format("too many parentheses: more than {} within each other", max_parse_depth));
  }

  int64_t disjunction() {
    int64_t value = conjunction();
    while (take("||")) {
      const int64_t right = conjunction();
      value = value != 0 || right != 0;
    }
    return value;
  }

  int64_t conjunction() {
    int64_t value = comparison();
    while (take("&&")) {
      const int64_t right = comparison();
      value = value != 0 && right != 0;
    }
    return value;
  }

  int64_t comparison() {
    const int64_t left = sum();
    if (take("==")) return left == sum();
    if (take("!=")) return left != sum();
    if (take("<=")) return left <= sum();
    if (take(">=")) return left >= sum();
    if (take("<")) return left < sum();
    if (take(">")) return left > sum();
    return left;
  }

  int64_t sum() {
    int64_t value = product();
    for (;;) {
      if (take("+")) {
        if (__builtin_add_overflow(value, product(), &value)) fail("overflow");
      } else if (take("-")) {
        if (__builtin_sub_overflow(value, product(), &value)) fail("overflow");
      } else {
        return value;
      }
    }
  }

  int64_t divisor() {
    const int64_t value = unary();
    if (value == 0) fail("division by zero");
    return value;
  }

  int64_t product() {
    int64_t value = unary();
    for (;;) {
      if (take("*")) {
        if (__builtin_mul_overflow(value, unary(), &value)) fail("overflow");
      } else if (take("/")) {
        const int64_t by = divisor();
        value = by == -1 ? negate(value) : value / by;
      } else if (take("%")) {
        const int64_t by = divisor();
        value = by == -1 ? 0 : value % by;
      } else {
        return value;
      }
    }
  }

  int64_t negate(int64_t value) const {
    if (value == std::numeric_limits<int64_t>::min()) fail("overflow");
    return -value;
  }

  int64_t unary() {
    bool negative = false;
    const size_t start = at_;
    while (take("-")) negative = !negative;
    const bool signs = at_ != start;
    const int64_t value = primary();
    if (!signs) return value;
    const int64_t opposite = negate(value);  // refuses what has no opposite, whatever the number of signs
    return negative ? opposite : value;
  }

  int64_t primary() {
    skip();
    if (at_ == text_.size()) fail("the expression ends early");
    if (take("(")) {
      enter();
      const int64_t value = disjunction();
      expect(")");
      --depth_;
      return value;
    }
    const char c = text_[at_];
    if (c >= '0' && c <= '9') return number();
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') return named();
    fail(fmt::format("unexpected '{}'", c));
  }

  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number is too large");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  int64_t named() {
    const size_t start = at_;
    const auto in_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (take("(")) return call(name);
    const auto found = values_.find(name);
    if (found == values_.end()) fail(fmt::format("unknown name '{}'", shortened(name)));
    return found->second;
  }

  int64_t call(std::string_view name) {
    const size_t count = name == "cond" ? 3 : name == "min" || name == "max" || name == "ceildiv" ? 2 : 0;
    if (count == 0) fail(fmt::format("unknown function '{}' (known: min, max, ceildiv, cond)", shortened(name)));
    enter();
    int64_t a[3] = {};
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) expect(",");
      a[i] = disjunction();
    }
    expect(")");
    --depth_;
    if (name == "min") return std::min(a[0], a[1]);
    if (name == "max") return std::max(a[0], a[1]);
    if (name == "cond") return a[0] != 0 ? a[1] : a[2];
    if (a[1] <= 0) fail("ceildiv by a number below 1");
    return a[0] / a[1] + (a[0] > 0 && a[0] % a[1] != 0);
  }

  std::string_view text_;
  const Bindings& values_;
  std::string_view where_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

int64_t evaluate_expression(std::string_view expression, const Bindings& values, std::string_view where) {
  return Evaluator(expression, values, where).run();
}

}  // namespace heddle
