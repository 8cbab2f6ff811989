// The Vulkan API as this backend sees it: functions that volk loads at run time, and the names of result codes.
//
// Invariants: no other file of the backend includes a Vulkan header directly; nothing links libvulkan.
// Thread safety: pure functions.
#pragma once

#include <volk.h>

#include <string_view>

namespace heddle::vulkan {

// "VK_ERROR_DEVICE_LOST"; "VkResult(n)" has no name here and is printed with its number by the caller.
std::string_view name_of(VkResult result);

// Throws the exception that fits the result: OutOfMemory, DeviceLost, LimitError (too many objects) or DeviceError. The
// text holds the call, the name and the code, and `detail` when it is not empty.
void check(VkResult result, std::string_view call, std::string_view detail = {});

}  // namespace heddle::vulkan
