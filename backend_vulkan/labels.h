// Labels: names for what a debugger or profiler of a vendor shows (RenderDoc, Nsight, RGP): VK_EXT_debug_utils.
//
// Purpose: a capture of a step shows kernels by their names. Commands are recorded once per step, so labels cost
// nothing when it runs again. Where the loader has no VK_EXT_debug_utils (Instance::debug_utils) nothing happens.
// Thread safety: pure but for the objects named.
#pragma once

#include <string>

#include "heddle/backend_vulkan/context.h"

namespace heddle::vulkan {

bool labels_available();
// `handle` is a VkPipeline, VkBuffer, ... of that type.
void name_object(const Context& context, VkObjectType type, uint64_t handle, const std::string& name);

// A stretch of a command buffer with a name.
class Label {
 public:
  Label(VkCommandBuffer commands, const std::string& name);
  ~Label();
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;

 private:
  VkCommandBuffer commands_;  // null: no labels here
};

}  // namespace heddle::vulkan
