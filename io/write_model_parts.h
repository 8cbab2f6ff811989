// Writes a `.heddle` file (io/model_parts.h).
//
// Invariants: the file appears whole or not at all; the same parts in the same order give the same bytes.
// Errors: ValueError of parts that no file may hold, IoError where it cannot be written. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/io/model_parts.h"

namespace heddle {

struct ModelPart {
  std::string name;
  PartKind kind = PartKind::graph;
  std::span<const uint8_t> bytes;
  std::string target, bucket;  // of an image
  PartAttributes attributes;
};

inline std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void write_model_parts(const std::string& path, std::span<const ModelPart> parts, const PartAttributes& metadata = {});

// The same file in memory.
std::vector<uint8_t> model_parts_bytes(std::span<const ModelPart> parts, const PartAttributes& metadata = {});

}  // namespace heddle
