// Data of tensors that lie in files beside the model.
//
// Purpose: a model names such a file; whoever made the model must not make this program read another one. The name is
// relative and stays in the model's folder: no "..", no link in any of its folders, no file with a second name, nothing
// but regular files. Errors: IoError "[onnx] path: ...". Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heddle::onnx {

struct ExternalPlace {
  std::string location;  // as the model says it
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

// `bytes` of them, as the tensor's shape says; nothing is allocated before the file is seen to hold them.
std::string read_external(const std::string& folder, const ExternalPlace& place, uint64_t bytes,
                          const std::string& who);

}  // namespace heddle::onnx
