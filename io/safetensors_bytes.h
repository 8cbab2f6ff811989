// safetensors files that are no files: bytes in memory, for who sends or receives them. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/io/safetensors.h"

namespace heddle {

// What write_safetensors() would write.
std::vector<uint8_t> safetensors_bytes(const TensorBytesMap& tensors, const Metadata& metadata = {});
// As read_safetensors() of a file of these bytes; `source` is what errors name.
SafetensorsBytes parse_safetensors(std::vector<uint8_t> file, const std::string& source);

}  // namespace heddle
