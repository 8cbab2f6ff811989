#include "train/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "core/base/error.h"

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
    if (!value) throw ValueError(fmt::format("[config] {}:{}: {} is neither a number, a text, true or false, nor a list of integers or of texts", source, line, key));
    entries.push_back({key, std::move(*value), line});
  }
}

// The shortest digits that read back as the same number; TOML tells a number from an integer by a point or an exponent.
std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::toml_formatter(toml::value<std::string>(text), toml::format_flags::none);
  return out.str();
}

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(toml_text(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, const std::string& source) {
  std::vector<TomlEntry> entries;
  try {
    flatten(toml::parse(text, source), "", source, entries);
  } catch (const toml::parse_error& error) {
    throw ValueError(fmt::format("[config] {}:{}: {}", source, error.source().begin.line, error.description()));
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
