// Keys and values of a TOML file that a command reads, with errors that name file and line.
//
// Errors: IoError for a file that cannot be read; ValueError, "[what] FILE:LINE: ...", for a text that is no TOML, a
// key twice, and values of another type. Thread safety: plain value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/train/toml.h"

namespace heddle::tools {

class TomlValues {
 public:
  // `what` stands in the brackets of errors.
  TomlValues(std::string what, std::string path);

  const std::vector<train::TomlEntry>& entries() const { return entries_; }
  double number(const train::TomlEntry& entry) const;
  int64_t integer(const train::TomlEntry& entry) const;
  bool flag(const train::TomlEntry& entry) const;
  std::string text(const train::TomlEntry& entry) const;
  // "[what] FILE:LINE: KEY COMPLAINT".
  [[noreturn]] void refuse(const train::TomlEntry& entry, std::string_view complaint) const;

 private:
  std::string what_, path_;
  std::vector<train::TomlEntry> entries_;
};

}  // namespace heddle::tools
