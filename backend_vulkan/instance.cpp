#include "heddle/backend_vulkan/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "heddle/backend_vulkan/validation.h"
#include "heddle/core/device/driver_probe.h"

namespace heddle::vulkan {
namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";
constexpr size_t max_kept_messages = 1000;

enum class Validation { off, automatic, on, sync };

struct Messages {
  std::mutex mutex;
  std::vector<std::string> texts;
};

// Never destroyed: the layer may speak while the process ends.
Messages& messages() {
  static Messages& kept = *new Messages;
  return kept;
}

VKAPI_ATTR VkBool32 VKAPI_CALL keep_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                            const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  Messages& kept = messages();
  const std::lock_guard lock(kept.mutex);
  if (kept.texts.size() < max_kept_messages) kept.texts.emplace_back(data->pMessage ? data->pMessage : "");
  std::fprintf(stderr, "[vulkan validation] %s\n", data->pMessage ? data->pMessage : "");
  return VK_FALSE;
}

Validation wanted_validation() {
  const char* value = std::getenv("HEDDLE_VULKAN_VALIDATION");
  const std::string_view text = value ? value : "";
  if (text.empty() || text == "0") return Validation::off;
  if (text == "auto") return Validation::automatic;
  if (text == "sync") return Validation::sync;
  return Validation::on;
}

bool has_validation_layer() {
  uint32_t count = 0;
  if (vkEnumerateInstanceLayerProperties(&count, nullptr) < 0) return false;
  std::vector<VkLayerProperties> layers(count);
  if (vkEnumerateInstanceLayerProperties(&count, layers.data()) < 0) return false;
  for (const auto& layer : layers) {
    if (std::strcmp(layer.layerName, validation_layer) == 0) return true;
  }
  return false;
}

bool has_extension(const char* name) {
  uint32_t count = 0;
  if (vkEnumerateInstanceExtensionProperties(nullptr, &count, nullptr) < 0) return false;
  std::vector<VkExtensionProperties> extensions(count);
  if (vkEnumerateInstanceExtensionProperties(nullptr, &count, extensions.data()) < 0) return false;
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info() {
  VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = keep_message;
  return info;
}

// Creates the VkInstance; the layer's own extensions are enabled with it when `validation` asks for it.
VkResult create(Validation validation, bool debug_utils, VkInstance* handle) {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "heddle";
  application.pEngineName = "heddle";
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;

  std::vector<const char*> extensions;
  if (debug_utils) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (validation != Validation::off) extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
  // Drivers over another interface, such as MoltenVK, are hidden from a program that does not ask for them.
  if (has_extension(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  const VkValidationFeatureEnableEXT sync = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  features.enabledValidationFeatureCount = validation == Validation::sync ? 1 : 0;
  features.pEnabledValidationFeatures = &sync;
  VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info();
  messenger.pNext = &features;
  if (validation != Validation::off) {
    info.pNext = &messenger;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &validation_layer;
  }
  return vkCreateInstance(&info, nullptr, handle);
}

std::string list_devices(Instance& made) {
  uint32_t count = 0;
  VkResult result = vkEnumeratePhysicalDevices(made.handle, &count, nullptr);
  if (result >= 0) {
    made.devices.resize(count);
    result = vkEnumeratePhysicalDevices(made.handle, &count, made.devices.data());
  }
  if (result < 0)
    return fmt::format("vkEnumeratePhysicalDevices failed: {} ({})", name_of(result), static_cast<int>(result));
  if (count == 0) return "the Vulkan loader works, but no driver offers a device";
  return {};
}

Instance make() {
  Instance made;
  if (volkInitialize() != VK_SUCCESS) {
    made.reason = "libvulkan.so.1 not found (install a Vulkan loader, e.g. libvulkan1)";
    return made;
  }
  made.reason = driver_fault("vulkan");
  if (!made.reason.empty()) return made;
  if (!vkEnumerateInstanceVersion || volkGetInstanceVersion() < VK_API_VERSION_1_1) {
    made.reason = "the Vulkan loader is older than version 1.1";
    return made;
  }
  Validation validation = wanted_validation();
  if (validation != Validation::off && !has_validation_layer()) {
    if (validation != Validation::automatic) {
      made.reason = fmt::format("HEDDLE_VULKAN_VALIDATION is set, but {} is not installed (vulkan-validationlayers)",
                                validation_layer);
      return made;
    }
    validation = Validation::off;
  }
  made.debug_utils = has_extension(VK_EXT_DEBUG_UTILS_EXTENSION_NAME) || validation != Validation::off;
  const VkResult result = create(validation, made.debug_utils, &made.handle);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    made.reason = "the Vulkan loader found no driver (vkCreateInstance: VK_ERROR_INCOMPATIBLE_DRIVER)";
  } else if (result < 0) {
    made.reason = fmt::format("vkCreateInstance failed: {} ({})", name_of(result), static_cast<int>(result));
  }
  if (result < 0) {
    made.handle = VK_NULL_HANDLE;
    return made;
  }
  volkLoadInstance(made.handle);
  made.validation = validation != Validation::off;
  if (made.validation) {
    const VkDebugUtilsMessengerCreateInfoEXT info = messenger_info();
    VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;  // lives as long as the instance
    vkCreateDebugUtilsMessengerEXT(made.handle, &info, nullptr, &messenger);
  }
  made.reason = list_devices(made);
  return made;
}

}  // namespace

const Instance& instance() {
  static const Instance& made = *new Instance(make());
  return made;
}

}  // namespace heddle::vulkan

namespace heddle {

bool vulkan_validation_active() { return vulkan::instance().validation; }

std::vector<std::string> vulkan_validation_messages() {
  auto& kept = vulkan::messages();
  const std::lock_guard lock(kept.mutex);
  return kept.texts;
}

void clear_vulkan_validation_messages() {
  auto& kept = vulkan::messages();
  const std::lock_guard lock(kept.mutex);
  kept.texts.clear();
}

}  // namespace heddle
