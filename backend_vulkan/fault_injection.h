// Fault injection: provokes, on a healthy device, what only broken hardware does. For tests of the code above a device.
//
// Thread safety: as the device itself: none.
#pragma once

#include "heddle/core/contract/device.h"

namespace heddle {

// The device's next submission fails as if the driver had returned VK_ERROR_DEVICE_LOST; afterwards the device is lost.
// Returns false when `device` is no Vulkan device.
bool vulkan_lose_device_on_next_submit(Device& device);

}  // namespace heddle
