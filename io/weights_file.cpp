#include "heddle/io/weights_file.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "heddle/core/base/path.h"
#include "heddle/io/torch_archive.h"

namespace heddle {

bool is_torch_file(const std::string& path) {
  constexpr std::array<std::string_view, 4> endings = {".pt", ".pth", ".bin", ".ckpt"};
  return std::ranges::find(endings, std::string(fs::path(path).extension())) != endings.end();
}

SafetensorsFile load_weights(const std::string& path, DeviceContext* device) {
  if (is_torch_file(path)) return {load_torch(path, device), {}};
  return load_safetensors(path, device);
}

Metadata weights_metadata(const std::string& path) {
  return is_torch_file(path) ? Metadata{} : read_safetensors(path).metadata;
}

}  // namespace heddle
