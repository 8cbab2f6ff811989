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
#include <span>
#include <string>
#include <vector>

#include "heddle/core/graph/tensor.h"

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

// A tensor on the host: a view of row-major elements as stored.
struct TensorBytes {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const uint8_t> bytes;
};
using TensorBytesMap = std::map<std::string, TensorBytes>;

// As save_safetensors() of the tensors; needs no device, from any thread.
void write_safetensors(const std::string& path, const TensorBytesMap& tensors, const Metadata& metadata = {});

// A file in memory, checked as load_safetensors() does; `tensors` point into `file`. May be moved, not copied.
struct SafetensorsBytes {
  std::vector<uint8_t> file;
  TensorBytesMap tensors;
  Metadata metadata;

  SafetensorsBytes() = default;
  SafetensorsBytes(SafetensorsBytes&&) = default;
  SafetensorsBytes& operator=(SafetensorsBytes&&) = default;
  // To a device, or the default device.
  TensorMap upload(DeviceContext* device = nullptr) const;
};
SafetensorsBytes read_safetensors(const std::string& path);

}  // namespace heddle
