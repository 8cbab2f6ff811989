// heddle-probe opencl|vulkan: opens every device of the installed drivers and says "heddle-probe: alive". Run by
// core/device/driver_probe.cpp in the place of a program that would die with a driver. Links nothing but the standard
// library and two files of core/base/system: loaders are opened at run time.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/sacrifice.h"

#ifdef HEDDLE_HAS_OPENCL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#endif
#ifdef HEDDLE_HAS_VULKAN
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>
#endif

namespace {

#ifdef HEDDLE_HAS_OPENCL
void open_opencl() {
  void* library = heddle::os::open_library(heddle::os::Vendor::opencl);
  if (!library) return;
#define HEDDLE_FIND(name) \
  const auto name = reinterpret_cast<decltype(&::cl##name)>(heddle::os::find_symbol(library, "cl" #name))
  HEDDLE_FIND(GetPlatformIDs);
  HEDDLE_FIND(GetDeviceIDs);
  HEDDLE_FIND(CreateContext);
#undef HEDDLE_FIND
  cl_uint count = 0;
  if (!GetPlatformIDs || !GetDeviceIDs || !CreateContext || GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return;
  std::vector<cl_platform_id> platforms(count);
  GetPlatformIDs(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    if (GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
    std::vector<cl_device_id> devices(count);
    GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    for (cl_device_id device : devices) {
      cl_int status = CL_SUCCESS;
      CreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    }
  }
}
#endif

#ifdef HEDDLE_HAS_VULKAN
bool offers_portability(PFN_vkGetInstanceProcAddr find) {
  const auto list = reinterpret_cast<PFN_vkEnumerateInstanceExtensionProperties>(
      find(VK_NULL_HANDLE, "vkEnumerateInstanceExtensionProperties"));
  uint32_t count = 0;
  if (!list || list(nullptr, &count, nullptr) < 0) return false;
  std::vector<VkExtensionProperties> offered(count);
  if (list(nullptr, &count, offered.data()) < 0) return false;
  for (const VkExtensionProperties& extension : offered) {
    if (std::strcmp(extension.extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME) == 0) return true;
  }
  return false;
}

void open_vulkan() {
  void* library = heddle::os::open_library(heddle::os::Vendor::vulkan);
  if (!library) return;
  const auto find =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(heddle::os::find_symbol(library, "vkGetInstanceProcAddr"));
  if (!find) return;
  VkInstance instance = VK_NULL_HANDLE;
#define HEDDLE_FIND(name) const auto name = reinterpret_cast<PFN_vk##name>(find(instance, "vk" #name))
  HEDDLE_FIND(CreateInstance);
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  const char* portability = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;  // as backend_vulkan/instance.cpp
  if (offers_portability(find)) {
    info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &portability;
  }
  if (!CreateInstance || CreateInstance(&info, nullptr, &instance) < 0) return;
  HEDDLE_FIND(EnumeratePhysicalDevices);
  HEDDLE_FIND(GetPhysicalDeviceProperties);
  HEDDLE_FIND(CreateDevice);
#undef HEDDLE_FIND
  uint32_t count = 0;
  if (EnumeratePhysicalDevices(instance, &count, nullptr) < 0) return;
  std::vector<VkPhysicalDevice> devices(count);
  EnumeratePhysicalDevices(instance, &count, devices.data());
  for (VkPhysicalDevice physical : devices) {
    VkPhysicalDeviceProperties properties{};
    GetPhysicalDeviceProperties(physical, &properties);
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo device_info{};
    device_info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device_info.queueCreateInfoCount = 1;
    device_info.pQueueCreateInfos = &queue;
    VkDevice device = VK_NULL_HANDLE;
    CreateDevice(physical, &device_info, nullptr, &device);
  }
}
#endif

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  heddle::os::expect_to_die(120);  // whoever asked may be gone
#ifdef HEDDLE_HAS_OPENCL
  if (std::strcmp(arguments[1], "opencl") == 0) open_opencl();
#endif
#ifdef HEDDLE_HAS_VULKAN
  if (std::strcmp(arguments[1], "vulkan") == 0) open_vulkan();
#endif
  // On a line of its own: a driver may have left one unfinished.
  std::printf("\nheddle-probe: alive\n");
  std::fflush(stdout);
  std::_Exit(0);
}
