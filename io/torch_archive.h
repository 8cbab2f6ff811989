// PyTorch's files of state dicts (`.pt`, `.pth`, `.bin`): what torch.save() writes, zip archives and, as before PyTorch
// 1.6, pickles with the data behind them.
//
// Purpose: weights of others. The pickle is read as data (io/pickle.h): tensors, parameters, numbers, texts and
// containers; any other class or function is refused by name, and nothing in a file is ever run. Invariants: tensors
// come out row-major; those that are so in the file are views into it. A file of one dict that holds a state dict among
// other things ("state_dict", "model", ...) gives that one. Every storage is compared with its bytes, every tensor with
// its storage, before anything is allocated. Errors: IoError "[torch] path: ..." in one line. Thread safety: as for the
// tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/io/file_bytes.h"
#include "heddle/io/safetensors.h"

namespace heddle {

// May be moved, not copied: `tensors` point into `file` and `copies`.
struct TorchArchive {
  FileBytes file;
  std::vector<std::vector<uint8_t>> copies;  // of tensors that were strided, and of bools
  TensorBytesMap tensors;
  std::vector<std::string> others;  // keys of the state dict whose values are no tensors

  TorchArchive() = default;
  TorchArchive(TorchArchive&&) = default;
  TorchArchive& operator=(TorchArchive&&) = default;
  // To a device, or the default device.
  TensorMap upload(DeviceContext* device = nullptr) const;
};
TorchArchive read_torch(const std::string& path);
TorchArchive read_torch(FileBytes file, const std::string& path);

// As load_safetensors(): names are those of the state dict.
TensorMap load_torch(const std::string& path, DeviceContext* device = nullptr);

}  // namespace heddle
