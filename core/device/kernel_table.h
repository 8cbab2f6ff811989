// KernelTable: the kernels that a device has, by their hashes.
//
// Thread safety: all of it is called under the device's lock, but for WhileWaiting.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/compile_notice.h"

namespace heddle {

class KernelTable {
 public:
  // Makes those at these positions of `hashes`, in that order.
  using Make = std::function<std::vector<KernelId>(std::span<const size_t> which)>;
  // The ids of kernels with these hashes; those that are new are made together, up to 16 a time. `device` names it in a
  // notice.
  std::vector<KernelId> find_or_make(const std::string& device, const std::vector<uint64_t>& hashes, const Make& make);
  void release_all(Device& device);

 private:
  std::unordered_map<uint64_t, KernelId> ids_;
};

// While somebody waits for the device: the first one after kernels were made may wait for a compiler, and is told.
class WhileWaiting {
 public:
  explicit WhileWaiting(const std::string& device);

 private:
  std::optional<CompileNotice> notice_;
};

}  // namespace heddle
