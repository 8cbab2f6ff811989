#include "heddle/backend_vulkan/labels.h"

#include "heddle/backend_vulkan/instance.h"
#include "heddle/backend_vulkan/validation.h"

namespace heddle::vulkan {

bool labels_available() {
  return instance().debug_utils && vkSetDebugUtilsObjectNameEXT && vkCmdBeginDebugUtilsLabelEXT &&
         vkCmdEndDebugUtilsLabelEXT;
}

// A name that could not be given is no fault of the work.
void name_object(const Context& context, VkObjectType type, uint64_t handle, const std::string& name) {
  if (!labels_available()) return;
  VkDebugUtilsObjectNameInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
  info.objectType = type;
  info.objectHandle = handle;
  info.pObjectName = name.c_str();
  static_cast<void>(vkSetDebugUtilsObjectNameEXT(context.device(), &info));
}

Label::Label(VkCommandBuffer commands, const std::string& name)
    : commands_(labels_available() ? commands : VK_NULL_HANDLE) {
  if (!commands_) return;
  VkDebugUtilsLabelEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT};
  info.pLabelName = name.c_str();
  vkCmdBeginDebugUtilsLabelEXT(commands_, &info);
}

Label::~Label() {
  if (commands_) vkCmdEndDebugUtilsLabelEXT(commands_);
}

}  // namespace heddle::vulkan

namespace heddle {

bool vulkan_labels_active() { return vulkan::labels_available(); }

}  // namespace heddle
