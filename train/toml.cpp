#include "train/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/parse_limits.h"
#include "core/base/shortened.h"
#include "core/base/text_stream.h"

#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES (heddle::max_parse_depth)
#include <toml++/toml.h>

namespace heddle::train {
namespace {

// All elements of one type, or nothing.
template <class T>
std::optional<Value> list_of(const toml::array& array) {
  std::vector<T> values;
  for (const toml::node& node : array) {
    const auto value = node.value_exact<T>();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return Value(std::move(values));
}

std::optional<Value> value_of(const toml::node& node) {
  if (const auto flag = node.value_exact<bool>()) return Value(*flag);
  if (const auto integer = node.value_exact<int64_t>()) return Value(*integer);
  if (const auto number = node.value_exact<double>()) return Value(*number);
  if (const auto text = node.value_exact<std::string>()) return Value(*text);
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  const std::optional<Value> integers = list_of<int64_t>(*array);
  return integers ? integers : list_of<std::string>(*array);
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& source, std::vector<TomlEntry>& entries) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, key + ".", source, entries);
      continue;
    }
    const uint32_t line = node.source().begin.line;
    std::optional<Value> value = value_of(node);
    if (!value) throw ValueError(fmt::format("[config] {}:{}: {} is neither a number, a text, true or false, nor a list of integers or of texts", source, line, shortened(key)));
    entries.push_back({key, std::move(*value), line});
  }
}

// The shortest digits that read back as the same number; TOML tells a number from an integer by a point or an exponent.
std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string quoted(const std::string& text) {
  TextOutput out;
  out << toml::toml_formatter(toml::value<std::string>(text), toml::format_flags::none);
  return out.str();
}

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(toml_text(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// Where the string that opens at `at` ends: the place behind its closing quotes, or the text's end.
size_t string_end(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool lines = text.substr(at, 3) == three;
  for (size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') ++i;
    else if (lines ? text.substr(i, 3) == three : text[i] == quote || text[i] == '\n') {
      i += lines ? 3 : 1;
      for (int more = 0; lines && more < 2 && i < text.size() && text[i] == quote; ++more) ++i;  // """x""""" ends in two quotes of its own
      return i;
    }
  }
  return text.size();
}

// Refuses keys, tables and lists that are too deep: toml++ frees and we walk them by recursion, and it has no limit for keys of many dots (a.a.a.a ...).
void check_depth(std::string_view text, const std::string& source) {
  std::vector<int> open;  // the depth around each open bracket
  int depth = 0;
  uint32_t line = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const size_t end = string_end(text, at);
      line += static_cast<uint32_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      at = end;
      continue;
    }
    if (c == '#') at = std::min(text.find('\n', at), text.size());
    if (at == text.size()) return;
    if (text[at] == '\n') {
      ++line;
      if (open.empty()) depth = 0;
    } else if (c == '[' || c == '{') {
      open.push_back(depth++);
    } else if ((c == ']' || c == '}') && !open.empty()) {
      depth = open.back();
      open.pop_back();
    } else if (c == ',' && !open.empty()) {
      depth = open.back() + 1;
    } else if (c == '.') {
      ++depth;
    }
    if (depth > max_parse_depth) throw ValueError(fmt::format("[config] {}:{}: keys or lists are more than {} deep", source, line, max_parse_depth));
    ++at;
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, const std::string& source) {
  if (text.size() > max_toml_bytes) throw ValueError(fmt::format("[config] {}: {} bytes; at most {} are read", source, text.size(), max_toml_bytes));
  check_depth(text, source);
  std::vector<TomlEntry> entries;
  try {
    flatten(toml::parse(text, source), "", source, entries);
  } catch (const toml::parse_error& error) {
    throw ValueError(fmt::format("[config] {}:{}: {}", source, error.source().begin.line, shortened(error.description())));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

std::string toml_text(const Value& value) {
  if (const auto* integers = std::get_if<Integers>(&value)) return list_text(*integers);
  if (const auto* texts = std::get_if<Texts>(&value)) return list_text(*texts);
  if (const auto* flag = std::get_if<Flag>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<Integer>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<Number>(&value)) return number_text(*number);
  return quoted(std::get<Text>(value));
}

}  // namespace heddle::train
