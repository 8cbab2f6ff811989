#include "tools/certify/radv_worker.h"

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "tools/cli.h"

#ifdef HEDDLE_HAS_VULKAN
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>
#endif

namespace heddle::tools::certify {

#ifdef HEDDLE_HAS_VULKAN
namespace {

// The loader is opened at run time, as by tools/probe/probe.cpp.
// clang-format off
#define HEDDLE_RADV_FUNCTIONS(F) \
  F(EnumeratePhysicalDevices) F(GetPhysicalDeviceProperties2) F(GetPhysicalDeviceFeatures2) F(CreateDevice) \
  F(CreateDescriptorSetLayout) F(CreatePipelineLayout) F(CreateShaderModule) F(CreateComputePipelines) \
  F(DestroyPipeline) F(DestroyShaderModule) F(DestroyPipelineLayout) F(DestroyDescriptorSetLayout) \
  F(GetPipelineExecutableStatisticsKHR) F(GetPipelineExecutableInternalRepresentationsKHR)
// clang-format on

struct Vulkan {
#define HEDDLE_RADV_POINTER(name) PFN_vk##name name = nullptr;
  HEDDLE_RADV_FUNCTIONS(HEDDLE_RADV_POINTER)
#undef HEDDLE_RADV_POINTER
  VkDevice device = VK_NULL_HANDLE;
  std::string driver;
};

void check(VkResult result, const char* call) {
  if (result < 0) throw DeviceError(fmt::format("[certify] {} of RADV: {}", call, static_cast<int>(result)));
}

// Debian's manifest; HEDDLE_RADV_ICD names another one.
constexpr const char* manifests[] = {"/usr/share/vulkan/icd.d/radeon_icd.x86_64.json",
                                     "/usr/share/vulkan/icd.d/radeon_icd.json",
                                     "/usr/share/vulkan/icd.d/radeon_icd.aarch64.json"};

void choose_driver(const std::string& family) {
  os::set_variable("RADV_FORCE_FAMILY", family);
  os::set_variable("MESA_SHADER_CACHE_DISABLE", "true");  // a shader of the cache has no text
  if (std::getenv("HEDDLE_RADV_ICD") != nullptr) {
    os::set_variable("VK_ICD_FILENAMES", std::getenv("HEDDLE_RADV_ICD"));
    return;
  }
  for (const char* manifest : manifests) {
    if (!fs::exists(manifest)) continue;
    os::set_variable("VK_ICD_FILENAMES", manifest);
    return;
  }
  throw DeviceUnavailable("[certify] RADV is not installed (Debian: mesa-vulkan-drivers)");
}

VkInstance make_instance(PFN_vkGetInstanceProcAddr find) {
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(find(VK_NULL_HANDLE, "vkCreateInstance"));
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  VkInstance instance = VK_NULL_HANDLE;
  check(create(&info, nullptr, &instance), "vkCreateInstance");
  return instance;
}

// All features that the driver has, and those of 1.2 by their own structure; kernels use 8 and 16 bit storage.
VkDevice make_device(Vulkan& vk, VkPhysicalDevice physical) {
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{};
  executables.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
  VkPhysicalDeviceVulkan12Features twelve{};
  twelve.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  twelve.pNext = &executables;
  VkPhysicalDeviceVulkan11Features eleven{};
  eleven.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  eleven.pNext = &twelve;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &eleven;
  vk.GetPhysicalDeviceFeatures2(physical, &features);
  features.features.robustBufferAccess = VK_FALSE;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* const extensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = extensions;
  VkDevice device = VK_NULL_HANDLE;
  check(vk.CreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
  return device;
}

Vulkan open_vulkan() {
  void* library = os::open_library(os::Vendor::vulkan);
  if (library == nullptr) throw DeviceUnavailable("[certify] libvulkan.so.1 not found");
  const auto find = reinterpret_cast<PFN_vkGetInstanceProcAddr>(os::find_symbol(library, "vkGetInstanceProcAddr"));
  if (find == nullptr) throw DeviceUnavailable("[certify] libvulkan.so.1 lacks vkGetInstanceProcAddr");
  const VkInstance instance = make_instance(find);
  Vulkan vk;
#define HEDDLE_RADV_FIND(name)                                          \
  vk.name = reinterpret_cast<PFN_vk##name>(find(instance, "vk" #name)); \
  if (vk.name == nullptr) throw DeviceUnavailable("[certify] the Vulkan loader lacks vk" #name);
  HEDDLE_RADV_FUNCTIONS(HEDDLE_RADV_FIND)
#undef HEDDLE_RADV_FIND
  uint32_t count = 1;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  check(vk.EnumeratePhysicalDevices(instance, &count, &physical), "vkEnumeratePhysicalDevices");
  if (count == 0) throw DeviceUnavailable("[certify] this RADV does not know the family");
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &driver;
  vk.GetPhysicalDeviceProperties2(physical, &properties);
  vk.driver = fmt::format("{} {}, {}", driver.driverName, driver.driverInfo, properties.properties.deviceName);
  vk.device = make_device(vk, physical);
  return vk;
}

// Destroys what was made, in reverse.
class Pipeline {
 public:
  Pipeline(const Vulkan& vk, const std::vector<uint32_t>& words, uint32_t bindings, uint32_t constant_bytes) : vk_(vk) {
    std::vector<VkDescriptorSetLayoutBinding> slots(bindings);
    for (uint32_t i = 0; i < bindings; ++i)
      slots[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo set{};
    set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    set.bindingCount = bindings;
    set.pBindings = slots.data();
    check(vk.CreateDescriptorSetLayout(vk.device, &set, nullptr, &set_), "vkCreateDescriptorSetLayout");
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, constant_bytes};
    VkPipelineLayoutCreateInfo layout{};
    layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &set_;
    layout.pushConstantRangeCount = constant_bytes == 0 ? 0 : 1;
    layout.pPushConstantRanges = &range;
    check(vk.CreatePipelineLayout(vk.device, &layout, nullptr, &layout_), "vkCreatePipelineLayout");
    VkShaderModuleCreateInfo module{};
    module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module.codeSize = words.size() * sizeof(uint32_t);
    module.pCode = words.data();
    check(vk.CreateShaderModule(vk.device, &module, nullptr, &module_), "vkCreateShaderModule");
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.flags =
        VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module_;
    info.stage.pName = "main";
    info.layout = layout_;
    check(vk.CreateComputePipelines(vk.device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_),
          "vkCreateComputePipelines");
  }
  ~Pipeline() {
    vk_.DestroyPipeline(vk_.device, pipeline_, nullptr);
    vk_.DestroyShaderModule(vk_.device, module_, nullptr);
    vk_.DestroyPipelineLayout(vk_.device, layout_, nullptr);
    vk_.DestroyDescriptorSetLayout(vk_.device, set_, nullptr);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  Json statistics() const {
    VkPipelineExecutableStatisticKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    uint32_t count = 0;
    const VkPipelineExecutableInfoKHR which = executable();
    check(vk_.GetPipelineExecutableStatisticsKHR(vk_.device, &which, &count, nullptr), "statistics");
    std::vector<VkPipelineExecutableStatisticKHR> all(count, empty);
    check(vk_.GetPipelineExecutableStatisticsKHR(vk_.device, &which, &count, all.data()), "statistics");
    Json json = Json::object();
    for (const VkPipelineExecutableStatisticKHR& one : all) {
      if (one.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR) json[one.name] = one.value.u64;
    }
    return json;
  }

  // The last text that the driver gives: the machine's own.
  std::string isa() const {
    VkPipelineExecutableInternalRepresentationKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    uint32_t count = 0;
    const VkPipelineExecutableInfoKHR which = executable();
    check(vk_.GetPipelineExecutableInternalRepresentationsKHR(vk_.device, &which, &count, nullptr), "texts");
    std::vector<VkPipelineExecutableInternalRepresentationKHR> all(count, empty);
    check(vk_.GetPipelineExecutableInternalRepresentationsKHR(vk_.device, &which, &count, all.data()), "texts");
    std::vector<std::vector<char>> texts(count);
    for (uint32_t i = 0; i < count; ++i) {
      texts[i].resize(all[i].dataSize);
      all[i].pData = texts[i].data();
    }
    check(vk_.GetPipelineExecutableInternalRepresentationsKHR(vk_.device, &which, &count, all.data()), "texts");
    return count == 0 || texts.back().empty() ? "" : std::string(texts.back().data());
  }

 private:
  VkPipelineExecutableInfoKHR executable() const {
    VkPipelineExecutableInfoKHR info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR;
    info.pipeline = pipeline_;
    return info;
  }

  const Vulkan& vk_;
  VkDescriptorSetLayout set_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkShaderModule module_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

Json answer(const Vulkan& vk, const std::string& line) {
  const Json request = Json::parse(line);
  const Pipeline pipeline(vk, request.at("spirv").get<std::vector<uint32_t>>(), request.at("bindings"),
                          request.at("constant_bytes"));
  return {{"statistics", pipeline.statistics()}, {"isa", pipeline.isa()}};
}

}  // namespace

void run_radv_worker(const std::string& family) {
  std::unique_ptr<Vulkan> vk;
  try {
    choose_driver(family);
    vk = std::make_unique<Vulkan>(open_vulkan());
    print_json({{"ready", vk->driver}});
  } catch (const std::exception& error) {
    return print_json({{"error", error.what()}});
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    try {
      print_json(answer(*vk, line));
    } catch (const std::exception& error) {
      print_json({{"error", error.what()}});
    }
  }
}
#else
void run_radv_worker(const std::string&) {
  print_json({{"error", "[certify] the Vulkan backend is not part of this build"}});
}
#endif

}  // namespace heddle::tools::certify
