// Tensors of a file's bytes.
//
// Purpose: weights that a device with the host's memory reads where the file is mapped, so that they are in memory
// once, as pages that the system may drop and read again. Any other device, small tensors and files that were read get
// a copy. Invariants: nothing writes into the file: what is assigned to such a tensor has memory of its own. The tensor
// keeps the file. Errors: ShapeError, DeviceError. Thread safety: as DeviceContext.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "heddle/core/graph/tensor.h"
#include "heddle/io/file_bytes.h"

namespace heddle {

// `bytes` lie in the file, as many as the shape has in that dtype.
Tensor tensor_of_file(const std::shared_ptr<const FileBytes>& file, std::span<const uint8_t> bytes, DType dtype,
                      const Shape& shape, DeviceContext& device);

}  // namespace heddle
