// Files of torch.save(), written byte by byte: what PyTorch would write, and what it never would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::test {

struct TorchTensor {
  std::vector<int64_t> sizes = {2, 3}, strides = {3, 1};
  int64_t offset = 0;
  int64_t storage_numel = 16;
  std::string key = "0";
};

// The pickle of a dict: each name with that tensor of f32.
std::string torch_state(const TorchTensor& tensor = {}, const std::vector<std::string>& names = {"w"});
// An archive of that pickle and the storage "0".
std::string torch_archive(const std::string& pickle, const std::string& storage);
// The format before archives, of a storage of f32.
std::string legacy_torch_file(const std::string& pickle, const std::string& storage);

}  // namespace heddle::test
