// A Vulkan driver over another interface, as MoltenVK is one: PORTABILITY_DRIVER names the library of a driver that it
// passes everything to. It offers VK_KHR_portability_subset beside, and makes no device without it.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

namespace {

constexpr const char* subset = "VK_KHR_portability_subset";

template <class Function>
Function find(const char* name) {
  static void* const library = dlopen(std::getenv("PORTABILITY_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

PFN_vkVoidFunction real(VkInstance instance, const char* name) {
  static const auto get = find<PFN_vkGetInstanceProcAddr>("vk_icdGetInstanceProcAddr");
  return get ? get(instance, name) : nullptr;
}

PFN_vkEnumerateDeviceExtensionProperties real_extensions = nullptr;
PFN_vkCreateDevice real_create = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char* layer, uint32_t* count,
                                          VkExtensionProperties* properties) {
  uint32_t offered = 0;
  if (const VkResult result = real_extensions(device, layer, &offered, nullptr); result < 0) return result;
  std::vector<VkExtensionProperties> all(offered);
  if (const VkResult result = real_extensions(device, layer, &offered, all.data()); result < 0) return result;
  VkExtensionProperties added{};
  std::strcpy(added.extensionName, subset);
  added.specVersion = 1;
  all.push_back(added);
  if (!properties) {
    *count = static_cast<uint32_t>(all.size());
    return VK_SUCCESS;
  }
  const bool complete = *count >= all.size();
  if (complete) *count = static_cast<uint32_t>(all.size());
  std::memcpy(properties, all.data(), *count * sizeof all[0]);
  return complete ? VK_SUCCESS : VK_INCOMPLETE;
}

VKAPI_ATTR VkResult VKAPI_CALL create(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                      const VkAllocationCallbacks* allocation, VkDevice* device) {
  std::vector<const char*> names;
  for (uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
    const char* const name = info->ppEnabledExtensionNames[i];
    if (std::strcmp(name, subset) != 0) names.push_back(name);
  }
  if (names.size() == info->enabledExtensionCount) return VK_ERROR_EXTENSION_NOT_PRESENT;
  VkDeviceCreateInfo passed = *info;
  passed.enabledExtensionCount = static_cast<uint32_t>(names.size());
  passed.ppEnabledExtensionNames = names.data();
  return real_create(physical, &passed, allocation, device);
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t* version) {
  static const auto negotiate = find<VkResult (*)(uint32_t*)>("vk_icdNegotiateLoaderICDInterfaceVersion");
  return negotiate ? negotiate(version) : VK_ERROR_INITIALIZATION_FAILED;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction found = real(instance, name);
  if (found && std::strcmp(name, "vkEnumerateDeviceExtensionProperties") == 0) {
    real_extensions = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(&extensions);
  }
  if (found && std::strcmp(name, "vkCreateDevice") == 0) {
    real_create = reinterpret_cast<PFN_vkCreateDevice>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(&create);
  }
  return found;
}

}  // extern "C"
