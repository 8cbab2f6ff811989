#include "heddle/backend_vulkan/vk.h"

#include <fmt/format.h>

#include <string>

#include "heddle/core/base/error.h"

namespace heddle::vulkan {

std::string_view name_of(VkResult result) {
#define HEDDLE_RESULT(name) \
  case name:                \
    return #name
  switch (result) {
    HEDDLE_RESULT(VK_SUCCESS);
    HEDDLE_RESULT(VK_NOT_READY);
    HEDDLE_RESULT(VK_TIMEOUT);
    HEDDLE_RESULT(VK_INCOMPLETE);
    HEDDLE_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY);
    HEDDLE_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    HEDDLE_RESULT(VK_ERROR_INITIALIZATION_FAILED);
    HEDDLE_RESULT(VK_ERROR_DEVICE_LOST);
    HEDDLE_RESULT(VK_ERROR_MEMORY_MAP_FAILED);
    HEDDLE_RESULT(VK_ERROR_LAYER_NOT_PRESENT);
    HEDDLE_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT);
    HEDDLE_RESULT(VK_ERROR_FEATURE_NOT_PRESENT);
    HEDDLE_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER);
    HEDDLE_RESULT(VK_ERROR_TOO_MANY_OBJECTS);
    HEDDLE_RESULT(VK_ERROR_FRAGMENTED_POOL);
    HEDDLE_RESULT(VK_ERROR_UNKNOWN);
    HEDDLE_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY);
    HEDDLE_RESULT(VK_ERROR_FRAGMENTATION);
    HEDDLE_RESULT(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS);
    HEDDLE_RESULT(VK_ERROR_INVALID_SHADER_NV);
    default:
      return "VkResult";
  }
#undef HEDDLE_RESULT
}

void check(VkResult result, std::string_view call, std::string_view detail) {
  if (result >= 0) return;
  const std::string text = fmt::format("[vulkan] {} failed: {} ({}){}{}", call, name_of(result),
                                       static_cast<int>(result), detail.empty() ? "" : "; ", detail);
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      throw OutOfMemory(text);
    case VK_ERROR_DEVICE_LOST:
      throw DeviceLost(text);
    case VK_ERROR_TOO_MANY_OBJECTS:
      throw LimitError(text);
    default:
      throw DeviceError(text);
  }
}

}  // namespace heddle::vulkan
