// TOML texts as lists of keys with values, for Config and for reports on runs of other versions. Parsed by toml++.
//
// Errors: ValueError with source and line. Thread safety: pure.
#pragma once

#include "heddle/train/config.h"

namespace heddle::train {

struct TomlEntry {
  std::string key;  // with the tables it lies in: "optimizer.lr"
  Value value;
  uint32_t line = 0;
};

// In the order of the text. Refuses texts of more than max_toml_bytes, or deeper than max_parse_depth, dates, and lists
// of other things than integers or strings.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& source);

}  // namespace heddle::train
