// Safetensors files that stay where they are: mapped, for weights that a device may read there (io/file_tensor.h).
//
// Invariants: the header is checked as load_safetensors() does; nothing is copied. Errors: IoError "[safetensors] path:
// ..."; read io/file_bytes.h about files that are cut while they are mapped. Thread safety: reading is const.
#pragma once

#include <memory>
#include <string>

#include "heddle/io/file_bytes.h"
#include "heddle/io/safetensors.h"

namespace heddle {

struct SafetensorsMap {
  std::shared_ptr<const FileBytes> file;
  TensorBytesMap tensors;  // point into the file; bool bytes are as they are stored
  Metadata metadata;
};
SafetensorsMap map_safetensors(const std::string& path);

}  // namespace heddle
