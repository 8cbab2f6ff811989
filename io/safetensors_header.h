// The header of a safetensors file, for the readers of io/: checked before any tensor is made of it.
//
// Errors: IoError "[safetensors] path: ...", as io/safetensors.h says. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/io/safetensors.h"

namespace heddle {

inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

// "F32", "BF16", ...
std::string_view safetensors_name_of(DType dtype);

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes from data_begin
};
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  Metadata metadata;
  uint64_t data_begin = 0;  // from the file's first byte
};
// Of a whole file; `path` stands in errors.
SafetensorsHeader safetensors_header(std::span<const uint8_t> file, const std::string& path);

}  // namespace heddle
