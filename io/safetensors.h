// safetensors files: named tensors, the format that other frameworks read and write.
//
// Layout: 8 bytes little-endian length of the header, the header (a JSON object: name -> {dtype, shape, data_offsets},
// and
// "__metadata__" -> strings), then the data. Purpose: models and checkpoints. Invariants: a file is written whole or
// not at all (io/atomic_file.h); a read checks the header against the file's size before any tensor is made: lengths,
// offsets that overlap, leave gaps or lie outside, duplicate names, unknown dtypes, sizes that do not fit the shape.
// Errors: IoError with the file and the tensor. Thread safety: as for the tensors passed.
#pragma once

#include <map>
#include <string>

#include "core/graph/tensor.h"

namespace heddle {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

// Observes the tensors. Every dtype of Heddle can be stored.
void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata = {});

struct SafetensorsFile {
  TensorMap tensors;
  Metadata metadata;
};
// Tensors go to `device`, or the default device. bool bytes other than 0 and 1 become 1.
SafetensorsFile load_safetensors(const std::string& path, DeviceContext* device = nullptr);

}  // namespace heddle
