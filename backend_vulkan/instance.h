// Instance: the process's one VkInstance, made through the loader that volk opens at run time.
//
// Invariants: made on first use and kept until the process ends (drivers do not like to be unloaded); `handle` is null
// exactly when `reason` says why Vulkan cannot be used here.
// Thread safety: instance() may be called from any thread; the result is immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/backend_vulkan/vk.h"

namespace heddle::vulkan {

struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  std::string reason;  // e.g. "libvulkan.so.1 not found"
  bool validation = false;
  bool debug_utils = false;               // VK_EXT_debug_utils is enabled
  std::vector<VkPhysicalDevice> devices;  // in the loader's order
};

const Instance& instance();

}  // namespace heddle::vulkan
