#include "tools/toml_values.h"

#include <fmt/format.h>

#include <variant>

#include "heddle/core/base/error.h"
#include "heddle/io/read_file.h"

namespace heddle::tools {

TomlValues::TomlValues(std::string what, std::string path)
    : what_(std::move(what)), path_(std::move(path)), entries_(train::read_toml(read_text_file(path_, what_), path_)) {}

double TomlValues::number(const train::TomlEntry& entry) const {
  if (const auto* value = std::get_if<train::Number>(&entry.value)) return *value;
  if (const auto* value = std::get_if<train::Integer>(&entry.value)) return static_cast<double>(*value);
  refuse(entry, "must be a number");
}

int64_t TomlValues::integer(const train::TomlEntry& entry) const {
  if (const auto* value = std::get_if<train::Integer>(&entry.value)) return *value;
  refuse(entry, "must be an integer");
}

bool TomlValues::flag(const train::TomlEntry& entry) const {
  if (const auto* value = std::get_if<train::Flag>(&entry.value)) return *value;
  refuse(entry, "must be true or false");
}

std::string TomlValues::text(const train::TomlEntry& entry) const {
  if (const auto* value = std::get_if<train::Text>(&entry.value)) return *value;
  refuse(entry, "must be a text");
}

void TomlValues::refuse(const train::TomlEntry& entry, std::string_view complaint) const {
  throw ValueError(fmt::format("[{}] {}:{}: {} {}", what_, path_, entry.line, entry.key, complaint));
}

}  // namespace heddle::tools
