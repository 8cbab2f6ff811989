#include "heddle/io/safetensors_map.h"

#include <utility>

#include "heddle/io/safetensors_header.h"

namespace heddle {

SafetensorsMap map_safetensors(const std::string& path) {
  SafetensorsMap result{std::make_shared<const FileBytes>(FileBytes::map(path, "safetensors")), {}, {}};
  const std::span<const uint8_t> bytes = result.file->bytes();
  SafetensorsHeader header = safetensors_header(bytes, path);
  result.metadata = std::move(header.metadata);
  for (const SafetensorsEntry& entry : header.entries) {
    const std::span<const uint8_t> own = bytes.subspan(header.data_begin + entry.begin, entry.end - entry.begin);
    result.tensors.emplace(entry.name, TensorBytes{entry.dtype, entry.shape, own});
  }
  return result;
}

}  // namespace heddle
