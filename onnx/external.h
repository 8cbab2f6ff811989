// Data of tensors that lie in files beside the model, or in memory.
//
// Purpose: a model names such a file; whoever made the model must not make this program read another one. The name is
// relative and stays in the model's folder: no "..", no link in any of its folders, no file with a second name, nothing
// but regular files. Errors: IoError "[onnx] path: ...". Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace heddle::onnx {

struct ExternalPlace {
  std::string location;  // as the model says it
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

// Where a model's external data lie: files of a folder, and what is called `name` in memory.
struct ExternalData {
  std::string folder;  // empty: no files
  std::string name;    // empty: nothing in memory
  std::span<const uint8_t> memory;
};

// `bytes` of them, as the tensor's shape says; nothing is allocated before the file is seen to hold them.
std::string read_external(const ExternalData& data, const ExternalPlace& place, uint64_t bytes, const std::string& who);

}  // namespace heddle::onnx
