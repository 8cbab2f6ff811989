// Weights in a file of whichever kind its name says: `.pt`, `.pth`, `.bin` and `.ckpt` are PyTorch's
// (io/torch_archive.h), others are safetensors.
//
// Errors: IoError of the readers. Thread safety: as for the tensors.
#pragma once

#include <string>

#include "heddle/io/safetensors.h"

namespace heddle {

bool is_torch_file(const std::string& path);

// Tensors go to `device`, or the default device. PyTorch's files have no metadata.
SafetensorsFile load_weights(const std::string& path, DeviceContext* device = nullptr);
// The metadata alone; no device is touched.
Metadata weights_metadata(const std::string& path);

}  // namespace heddle
