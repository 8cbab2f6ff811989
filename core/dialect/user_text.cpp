#include "heddle/core/dialect/user_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_limits.h"
#include "heddle/core/base/shortened.h"

namespace heddle {
namespace {

enum class Word : uint8_t { type, keyword, loop, function, dear, value };

// What of the dialect concerns one element, and a function's cost. Dear: transcendental, in f64 only where
// Caps::f64_math.
struct Entry {
  Word kind;
  int cost = 0;
};
const std::map<std::string, Entry, std::less<>>& words() {
  static const std::map<std::string, Entry, std::less<>> table = [] {
    std::map<std::string, Entry, std::less<>> made;
    for (const char* name : {"float", "int", "uint", "bool", "F64", "I64", "T"}) made[name] = {Word::type};
    for (const char* name : {"if", "else", "break", "continue", "const", "UNROLL", "ROLLED", "IN_ORDER", "PRECISE"})
      made[name] = {Word::keyword};
    for (const char* name : {"for", "while", "do"}) made[name] = {Word::loop};
    for (const char* name : {"true", "false", "INFINITY", "NAN"}) made[name] = {Word::value};
    for (const char* name :
         {"exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "erf", "pow", "atan2", "fmod"})
      made[name] = {Word::dear, 12};
    for (const char* name : {"sqrt", "rsqrt"}) made[name] = {Word::function, 4};
    for (const char* name : {"floor", "ceil", "trunc", "round", "abs", "max", "min", "isnan", "isinf", "FMA", "MULHI",
                             "IDIV", "IMOD", "MOD", "CAST", "AS_FLOAT", "AS_UINT", "WIDEN"}) {
      made[name] = {Word::function, 1};
    }
    return made;
  }();
  return table;
}

const Entry* word(std::string_view name) {
  const auto found = words().find(name);
  return found == words().end() ? nullptr : &found->second;
}

std::string functions() {
  std::string all;
  for (const auto& [name, entry] : words()) {
    if (entry.kind == Word::function || entry.kind == Word::dear) all += (all.empty() ? "" : " ") + name;
  }
  return all;
}

// Comments become spaces; their line ends stay.
std::string without_comments(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      while (i < text.size() && text[i] != '\n') ++i;
      if (i < text.size()) out += '\n';
    } else if (text.substr(i, 2) == "/*") {
      const size_t end = text.find("*/", i + 2);
      for (; i < std::min(end, text.size()); ++i) out += text[i] == '\n' ? '\n' : ' ';
      if (end != std::string_view::npos) ++i;
    } else if (text[i] != '\r') {
      out += text[i];
    }
  }
  return out;
}

size_t number_end(std::string_view text, size_t at) {
  const bool hex = text.substr(at, 2) == "0x" || text.substr(at, 2) == "0X";
  while (at < text.size() &&
         (continues_name(text[at]) || text[at] == '.' ||
          (!hex && (text[at] == '-' || text[at] == '+') && (text[at - 1] == 'e' || text[at - 1] == 'E'))))
    ++at;
  return at;
}

// A literal with a point or an exponent is of type T.
std::string literal(const std::string& number, bool wide) {
  const bool hex = number.size() > 1 && (number[1] == 'x' || number[1] == 'X');
  if (hex || number.find_first_of(".eE") == std::string::npos) return number;
  std::string digits = number;
  if (digits.back() == 'f' || digits.back() == 'F') digits.pop_back();
  if (digits.front() == '.') digits = "0" + digits;
  if (digits.back() == '.') digits += "0";
  return wide ? fmt::format("F64({})", digits) : digits + "f";
}

int line_after(int line, std::string_view text) {
  return line + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

bool is_user_name(std::string_view name) {
  return !name.empty() && starts_name(name[0]) && std::all_of(name.begin(), name.end(), continues_name) &&
         name.find("__") == std::string_view::npos && name.front() != '_' && name.back() != '_' &&
         word(name) == nullptr;
}

void UserText::fail(int line, const std::string& what) const {
  throw ValueError(fmt::format("[{}] line {} of its text: {}", who_, line, shortened(what, 1000)));
}

UserText::UserText(std::string_view who, std::string_view text, std::vector<std::string> inputs,
                   std::vector<std::string> outputs)
    : who_(who), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  if (text.size() > max_user_text_bytes)
    throw ValueError(
        fmt::format("[{}] its text has {} bytes; at most {} are read", who_, text.size(), max_user_text_bytes));
  const std::string plain = without_comments(text);
  std::vector<Token> tokens;
  int line = 1;
  for (size_t at = 0; at < plain.size();) {
    const char c = plain[at];
    size_t end = at + 1;
    Kind kind = Kind::mark;
    if (is_ascii_space(c)) {
      kind = Kind::space;
    } else if (starts_name(c)) {
      while (end < plain.size() && continues_name(plain[end])) ++end;
      kind = word(std::string_view(plain).substr(at, end - at)) != nullptr ? Kind::word : Kind::name;
    } else if (is_ascii_digit(c) || (c == '.' && end < plain.size() && is_ascii_digit(plain[end]))) {
      end = number_end(plain, at);
      kind = Kind::number;
    } else if (std::string_view("+-*/%<>=!&|^~?:;,(){}[]").find(c) == std::string_view::npos) {
      fail(line,
           fmt::format("'{}' is no part of the language for one element{}", c,
                       c == '#' ? "; preprocessor lines are not allowed, write the number where it is used" : ""));
    }
    tokens.push_back({kind, plain.substr(at, end - at)});
    line = line_after(line, tokens.back().text);
    at = end;
  }
  check(tokens);
  tokens_ = std::move(tokens);
}

void UserText::check(const std::vector<Token>& tokens) {
  int line = 1, loop_line = 0, signs = 0, choices = 0, otherwise = 0;
  const auto count_level = [&](int& levels, const char* what) {
    if (++levels > max_parse_depth) fail(line, fmt::format("more than {} {}", max_parse_depth, what));
  };
  std::string open;
  bool empty = true;
  expression_ = true;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.kind == Kind::space) {
      line = line_after(line, token.text);
      continue;
    }
    empty = false;
    const auto next = std::find_if(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1, tokens.end(),
                                   [](const Token& t) { return t.kind != Kind::space; });
    const bool called = next != tokens.end() && next->text == "(";
    const char c = token.text[0];
    if (std::string_view("+-!~").find(c) == std::string_view::npos)
      signs = 0;
    else
      count_level(signs, "signs in a row");
    if (token.kind == Kind::mark) {
      if (c == ';') expression_ = false;
      if (c == ';') choices = 0;
      if (c == '?') count_level(choices, "'?' in one statement");
      if (c == '(' || c == '{' || c == '[') {
        open += c;
        int levels = static_cast<int>(open.size()) - 1;
        count_level(levels, "brackets within brackets");
      }
      if (c == ')' || c == '}' || c == ']') {
        const char partner = c == ')' ? '(' : c == '}' ? '{' : '[';
        if (open.empty() || open.back() != partner) fail(line, fmt::format("'{}' closes nothing", c));
        open.pop_back();
      }
      cost_ += c == '/' || c == '%' ? 4 : std::string_view("+-*<>?&|").find(c) != std::string_view::npos ? 1 : 0;
    } else if (token.kind == Kind::word) {
      const Entry entry = *word(token.text);
      if (token.text == "else") count_level(otherwise, "times 'else'");
      if (entry.kind == Word::loop) {
        loops_ = true;
        loop_line = line;
      }
      transcendental_ = transcendental_ || entry.kind == Word::dear;
      cost_ += entry.cost;
    } else if (token.kind == Kind::name) {
      if (token.text == "return" || token.text == "goto" || token.text == "switch")
        fail(line, fmt::format("there is no '{}'; set the outputs, and leave loops by break", token.text));
      if (called) fail(line, fmt::format("unknown function '{}'; there are {}", token.text, functions()));
      if (token.text.find("__") != std::string::npos)
        fail(line, fmt::format("'{}' has two underscores side by side, which GLSL keeps for itself", token.text));
    }
  }
  if (empty) fail(1, "it is empty; write an expression, or statements that set the outputs");
  if (!open.empty()) fail(line, fmt::format("'{}' is not closed", open.back()));
  if (expression_ && outputs_.size() > 1)
    fail(1,
         fmt::format("an expression gives one output, there are {}; write statements that set each, as in '{} = ...;'",
                     outputs_.size(), outputs_[0]));
  if (expression_ && loop_line > 0) fail(loop_line, "a loop is a statement; end statements with ';'");
  for (const std::string& output : outputs_) {
    const bool set = expression_ || std::any_of(tokens.begin(), tokens.end(), [&](const Token& t) {
                       return t.kind == Kind::name && t.text == output;
                     });
    if (!set) fail(1, fmt::format("it never sets the output '{}'", output));
  }
}

std::string UserText::block(const std::vector<Operand>& inputs, const std::vector<Operand>& outputs, DType common,
                            bool lines) const {
  const bool wide = arith(common) == DType::f64;
  const std::string type = wide                              ? "F64"
                           : arith(common) == DType::i64     ? "I64"
                           : arith(common) == DType::i32     ? "int"
                           : arith(common) == DType::boolean ? "bool"
                                                             : "float";
  std::string out = "{\n";
  for (size_t i = 0; i < inputs.size(); ++i)
    out += fmt::format("{} u_{} = {};\n", inputs[i].type, inputs_[i], inputs[i].variable);
  for (size_t i = 0; i < outputs.size() && !expression_; ++i) {
    out += fmt::format("{} u_{} = {};\n", outputs[i].type, outputs_[i],
                       outputs[i].type == "bool" ? "false" : fmt::format("CAST({}, 0)", outputs[i].type));
  }
  if (lines) out += fmt::format("#line 1 \"{}\"\n", who_);
  if (expression_) out += fmt::format("{} = (", outputs[0].variable);
  for (const Token& token : tokens_) {
    if (token.kind == Kind::name)
      out += "u_" + token.text;
    else if (token.kind == Kind::number)
      out += literal(token.text, wide);
    else if (token.text == "T")
      out += type;
    else if (wide && (token.text == "INFINITY" || token.text == "NAN"))
      out += fmt::format("CAST(F64, {})", token.text);
    else
      out += token.text;
  }
  out += expression_ ? ");\n" : "\n";
  for (size_t i = 0; i < outputs.size() && !expression_; ++i)
    out += fmt::format("{} = u_{};\n", outputs[i].variable, outputs_[i]);
  return out + "}";
}

std::string UserText::with_own_names(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size(); ++i) {
    const bool starts = (i == 0 || !continues_name(message[i - 1])) && message.substr(i, 2) == "u_";
    if (starts)
      ++i;
    else
      out += message[i];
  }
  return out;
}

int UserText::line_in(std::string_view log, const std::string& who) {
  for (const std::string& mark : {who + ":", who + "("}) {
    for (size_t at = log.find(mark); at != std::string_view::npos; at = log.find(mark, at + 1)) {
      size_t digit = at + mark.size();
      int line = 0;
      constexpr int most_lines = 1'000'000;  // a longer number is no line of a text
      while (digit < log.size() && is_ascii_digit(log[digit]) && line < most_lines)
        line = 10 * line + (log[digit++] - '0');
      if (line > 0 && line < most_lines) return line;
    }
  }
  return 0;
}

}  // namespace heddle
