// Validation: what Vulkan's validation layer has said in this process.
//
// Purpose: HEDDLE_VULKAN_VALIDATION switches the layer on when the first Vulkan device is listed or opened:
//   1     the layer must be installed, otherwise the devices are unavailable and say so
//   auto  the layer is used when it is installed
//   sync  like 1, with synchronisation validation (finds missing barriers) as well
// Each message is printed to stderr and kept here, so that a test can assert that there is none.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <string>
#include <vector>

namespace heddle {

// True when the layer is active in this process.
bool vulkan_validation_active();
// The messages (warnings and errors) so far, oldest first; at most the first 1000 are kept.
std::vector<std::string> vulkan_validation_messages();
// True when commands and objects carry names for the tools of vendors (VK_EXT_debug_utils): where the loader has the
// extension.
bool vulkan_labels_active();
// Forgets the messages; for a test that provokes one.
void clear_vulkan_validation_messages();

}  // namespace heddle
