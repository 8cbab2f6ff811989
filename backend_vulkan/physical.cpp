#include "heddle/backend_vulkan/physical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/contract/quirks.h"

namespace heddle::vulkan {
namespace {

DeviceClass device_class(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return DeviceClass::discrete_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return DeviceClass::integrated_gpu;
    default:
      return DeviceClass::cpu;
  }
}

// The shapes that the MMA macros of shaders/prelude.glsl are written for; sums are never f16.
std::string_view known_shape(uint32_t m, uint32_t n, uint32_t k, VkComponentTypeNV in, VkComponentTypeNV sum) {
  if (m != 16 || n != 16) return {};
  if (k == 16 && in == VK_COMPONENT_TYPE_FLOAT16_NV && sum == VK_COMPONENT_TYPE_FLOAT32_NV) return "16x16x16 f16 f32";
  if (k == 32 && in == VK_COMPONENT_TYPE_SINT8_NV && sum == VK_COMPONENT_TYPE_SINT32_NV) return "16x16x32 i8 i32";
  return {};
}

void add_shape(std::string& list, std::string_view extension, std::string_view shape) {
  if (shape.empty() || list.find(shape) != std::string::npos) return;
  list += fmt::format("{}{}", list.empty() ? fmt::format("{}: ", extension) : "; ", shape);
}

// Whether SPIR-V may use that extension's matrices: a program that only loads kernels takes what it is given.
bool compiler_knows_khr_matrices() {
  static const bool known = [] {
    const KernelCompiler* compiler = builtin_compiler(Target::glsl);
    return compiler == nullptr || compiler->knows("GL_KHR_cooperative_matrix");
  }();
  return known;
}

uint32_t clamp_to_u32(VkDeviceSize value) { return static_cast<uint32_t>(std::min<VkDeviceSize>(value, UINT32_MAX)); }

}  // namespace

template <class T>
void Physical::chain(void*& head, T& link, VkStructureType type) {
  link.sType = type;
  link.pNext = head;
  head = &link;
}

Physical::Physical(VkPhysicalDevice handle, int index) : handle_(handle) {
  info_.id = fmt::format("vulkan:{}", index);
  info_.backend = "vulkan";
  VkPhysicalDeviceProperties plain;
  vkGetPhysicalDeviceProperties(handle_, &plain);
  info_.name = plain.deviceName;
  info_.driver = fmt::format("Vulkan {}.{}.{}", VK_API_VERSION_MAJOR(plain.apiVersion),
                             VK_API_VERSION_MINOR(plain.apiVersion), VK_API_VERSION_PATCH(plain.apiVersion));
  api_ = plain.apiVersion;
  if (api_ < VK_API_VERSION_1_1) {
    info_.reason = fmt::format("the driver offers {}, Vulkan 1.1 is needed", info_.driver);
    return;
  }
  read_extensions();
  read_features();
  read_properties();
  choose_queue();
  judge();
}

bool Physical::has(const char* extension) const {
  return std::any_of(offered_.begin(), offered_.end(),
                     [&](const VkExtensionProperties& e) { return std::strcmp(e.extensionName, extension) == 0; });
}

void Physical::read_extensions() {
  uint32_t count = 0;
  if (vkEnumerateDeviceExtensionProperties(handle_, nullptr, &count, nullptr) < 0) return;
  offered_.resize(count);
  if (vkEnumerateDeviceExtensionProperties(handle_, nullptr, &count, offered_.data()) < 0) offered_.clear();
  // Features that became core later are reached through their extension on an older driver.
  const auto enable = [&](const char* name, uint32_t core_since) {
    if (api_ < core_since && has(name)) extensions_.push_back(name);
  };
  enable("VK_KHR_portability_subset", UINT32_MAX);  // a driver that offers it makes no device without it (MoltenVK)
  enable(VK_KHR_8BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2);
  enable(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2);
  enable(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_API_VERSION_1_2);
  enable(VK_KHR_SHADER_SUBGROUP_EXTENDED_TYPES_EXTENSION_NAME, VK_API_VERSION_1_2);
  enable(VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2);
  enable(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, VK_API_VERSION_1_3);
  enable(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3);
  enable(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, UINT32_MAX);
  const bool khr = has(cooperative_matrix_khr) && compiler_knows_khr_matrices();
  if (khr) extensions_.push_back(cooperative_matrix_khr);
  if (!khr || builtin_compiler(Target::glsl) == nullptr) enable(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME, UINT32_MAX);
}

void Physical::read_features() {
  void* head = nullptr;
  const auto offers = [&](const char* name, uint32_t core_since) { return api_ >= core_since || has(name); };
  chain(head, storage16_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
  if (offers(VK_KHR_8BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2)) {
    chain(head, storage8_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
  }
  if (offers(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2)) {
    chain(head, narrow_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
  }
  if (offers(VK_KHR_SHADER_SUBGROUP_EXTENDED_TYPES_EXTENSION_NAME, VK_API_VERSION_1_2)) {
    chain(head, subgroup_types_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES);
  }
  if (offers(VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2)) {
    chain(head, memory_model_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
  }
  if (offers(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, VK_API_VERSION_1_3)) {
    chain(head, dot_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
  }
  if (offers(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3)) {
    chain(head, subgroup_control_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
  }
  const auto enabled = [&](std::string_view name) {
    return std::find(extensions_.begin(), extensions_.end(), name) != extensions_.end();
  };
  if (enabled(cooperative_matrix_khr)) chain(head, matrix_khr_, cooperative_matrix_features_khr);
  if (enabled(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
    chain(head, matrix_, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV);
  }
  wanted_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  wanted_.pNext = head;
  vkGetPhysicalDeviceFeatures2(handle_, &wanted_);
  // Of the plain features only these; robust buffer access, for one, would slow every kernel down.
  const VkPhysicalDeviceFeatures offered = wanted_.features;
  wanted_.features = {};
  wanted_.features.shaderFloat64 = offered.shaderFloat64;
  wanted_.features.shaderInt64 = offered.shaderInt64;
  wanted_.features.shaderInt16 = offered.shaderInt16;
  wanted_.features.shaderStorageImageExtendedFormats = offered.shaderStorageImageExtendedFormats;
  take_away();
  storage16_.storagePushConstant16 = VK_FALSE;
  storage16_.storageInputOutput16 = VK_FALSE;
  storage8_.storagePushConstant8 = VK_FALSE;
  matrix_.cooperativeMatrixRobustBufferAccess = VK_FALSE;
  matrix_khr_.cooperativeMatrixRobustBufferAccess = VK_FALSE;
}

void Physical::take_away() {
  const char* list = std::getenv("HEDDLE_VULKAN_WITHOUT");
  without_ = list ? list : "";
  for (size_t at = 0; at < without_.size();) {
    const size_t end = std::min(without_.find(',', at), without_.size());
    const std::string_view name = std::string_view(without_).substr(at, end - at);
    at = end + 1;
    if (name == "storage8") {
      storage8_.storageBuffer8BitAccess = storage8_.uniformAndStorageBuffer8BitAccess = VK_FALSE;
    } else if (name == "storage16") {
      storage16_.storageBuffer16BitAccess = storage16_.uniformAndStorageBuffer16BitAccess = VK_FALSE;
    } else if (name == "int64") {
      wanted_.features.shaderInt64 = VK_FALSE;
    } else if (name == "f64") {
      wanted_.features.shaderFloat64 = VK_FALSE;
    } else if (name == "subgroups") {
      subgroups_taken_ = true;
    } else if (!name.empty()) {
      info_.reason = fmt::format(
          "HEDDLE_VULKAN_WITHOUT names '{}'; it may name storage8, storage16, int64, f64 and subgroups, with commas",
          name);
    }
  }
}

void Physical::read_properties() {
  void* head = nullptr;
  VkPhysicalDeviceSubgroupProperties subgroup{};
  VkPhysicalDeviceMaintenance3Properties maintenance3{};
  VkPhysicalDeviceMaintenance4Properties maintenance4{};
  VkPhysicalDeviceDriverProperties driver{};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{};
  VkPhysicalDeviceShaderCorePropertiesAMD cores{};
  VkPhysicalDeviceSubgroupSizeControlProperties control{};
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT imports{};
  VkPhysicalDeviceFloatControlsProperties floats{};
  if (api_ >= VK_API_VERSION_1_2 || has(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME))
    chain(head, floats, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
  if (has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
    chain(head, imports, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
  if (subgroup_control_.subgroupSizeControl)
    chain(head, control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  chain(head, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  chain(head, maintenance3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  const bool has_driver = api_ >= VK_API_VERSION_1_2 || has(VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
  if (has_driver) chain(head, driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  if (api_ >= VK_API_VERSION_1_3) chain(head, maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
  if (dot_.shaderIntegerDotProduct) {
    chain(head, dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
  }
  if (has(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    chain(head, multiprocessors, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  }
  if (has(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
    chain(head, cores, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
  }
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, head, {}};
  vkGetPhysicalDeviceProperties2(handle_, &properties);

  imported_unit_ = imports.minImportedHostPointerAlignment;
  if (has_driver)
    info_.driver = fmt::format("{}{}{}", driver.driverName, *driver.driverInfo ? " " : "", driver.driverInfo);
  read_limits(properties);
  Caps& caps = info_.caps;
  // 1 where lanes of a subgroup cannot exchange values: then it is of no use to kernels.
  const bool shuffle = !subgroups_taken_ && (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                       (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  caps.subgroup_size = shuffle ? std::max(1u, subgroup.subgroupSize) : 1;
  fixed_subgroups_ = (control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                     control.minSubgroupSize <= caps.subgroup_size && caps.subgroup_size <= control.maxSubgroupSize;
  // CPU drivers keep NaN unasked.
  asks_for_nan_ = floats.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE && caps.device_class != DeviceClass::cpu;
  caps.int8_dot = dot.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE;
  if (caps.device_class == DeviceClass::cpu) caps.compute_units = std::max(1u, std::thread::hardware_concurrency());
  if (multiprocessors.shaderSMCount > 0) caps.compute_units = multiprocessors.shaderSMCount;
  if (cores.shaderEngineCount > 0) {
    caps.compute_units = cores.shaderEngineCount * cores.shaderArraysPerEngineCount * cores.computeUnitsPerShaderArray;
  }
  VkDeviceSize largest = maintenance3.maxMemoryAllocationSize;
  if (api_ >= VK_API_VERSION_1_3) largest = std::min(largest, maintenance4.maxBufferSize);
  read_memory(largest);
  read_matrix_units();
}

void Physical::read_limits(const VkPhysicalDeviceProperties2& all) {
  const VkPhysicalDeviceProperties& properties = all.properties;
  const VkPhysicalDeviceLimits& limits = properties.limits;
  Caps& caps = info_.caps;
  caps.device_class = device_class(properties.deviceType);
  caps.target = Target::glsl;
  caps.vendor_id = properties.vendorID;
  caps.shared_bytes = limits.maxComputeSharedMemorySize;
  caps.max_group_lanes = limits.maxComputeWorkGroupInvocations;
  std::copy_n(limits.maxComputeWorkGroupSize, 3, caps.max_group);
  std::copy_n(limits.maxComputeWorkGroupCount, 3, caps.max_groups);
  // Drivers with descriptors in memory name a million; a kernel of more than the other backends allow is of no use.
  constexpr uint32_t most_bindings = 64;
  caps.max_bindings = std::min({limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers,
                                limits.maxPerStageResources, most_bindings});
  // Sixteen at least, so that a four-wide vector access is aligned whatever the driver says.
  caps.buffer_alignment = clamp_to_u32(std::max<VkDeviceSize>(limits.minStorageBufferOffsetAlignment, 16));
  caps.max_binding_bytes = limits.maxStorageBufferRange;
  caps.f16_arithmetic = narrow_.shaderFloat16 == VK_TRUE;
  caps.f64 = wanted_.features.shaderFloat64 == VK_TRUE;
  const Quirks quirks(info_);
  // Mesa's gallivm counts the iterations of all loops of an invocation (LP_MAX_TGSI_LOOP_ITERATIONS).
  if (quirks.has(Quirk::loops_end_early)) caps.max_loop_iterations = 65535;
  if (quirks.has(Quirk::loops_compile_slowly)) caps.max_loop_ops = 32;
  if (quirks.has(Quirk::texels_beat_buffers)) texels_ = choose_texels(limits);
  caps.texel_loads = texels_ != Texels::none;
  caps.texel_images = texels_ == Texels::storage;
  caps.f64_math = false;  // GLSL has no exp, log, sin, ... in f64
  caps.i64 = true;        // by words where the device has no 64-bit integers
  caps.i64_arithmetic = wanted_.features.shaderInt64 == VK_TRUE;
  caps.storage8 = storage8_.storageBuffer8BitAccess == VK_TRUE;
  caps.storage16 = storage16_.storageBuffer16BitAccess == VK_TRUE;
  timestamp_seconds_ = static_cast<double>(limits.timestampPeriod) * 1e-9;

  const uint32_t identity[] = {properties.vendorID, properties.deviceID, properties.driverVersion,
                               properties.apiVersion};
  caps.driver_hash = hash_bytes(identity, sizeof(identity));
  caps.driver_hash = hash_bytes(properties.pipelineCacheUUID, VK_UUID_SIZE, caps.driver_hash);
  caps.driver_hash = hash_string(info_.name, caps.driver_hash);
  caps.driver_hash = hash_string(info_.driver, caps.driver_hash);
  if (texels_ != Texels::none) caps.driver_hash = hash_bytes(&texels_, sizeof(texels_), caps.driver_hash);
  if (!without_.empty()) caps.driver_hash = hash_string(without_, caps.driver_hash);
}

Texels Physical::choose_texels(const VkPhysicalDeviceLimits& limits) const {
  const uint32_t most = 2 * info_.caps.max_bindings;  // one of elements and one of quads for each buffer
  if (limits.maxTexelBufferElements < limits.maxStorageBufferRange ||
      limits.minTexelBufferOffsetAlignment > info_.caps.buffer_alignment)
    return Texels::none;
  const bool uniform = limits.maxPerStageDescriptorSampledImages >= most;
  const bool storage = limits.maxPerStageDescriptorStorageImages >= most && loads_storage_texels();
  const char* forced = std::getenv("HEDDLE_TEXELS");
  const std::string_view wish = forced ? forced : "";
  if (wish == "none") return Texels::none;
  if (wish == "uniform" && uniform) return Texels::uniform;
  if (wish == "storage" && storage) return Texels::storage;
  // Descriptors that are memory of the application carry the functions that read them.
  if (storage && has(VK_EXT_DESCRIPTOR_BUFFER_EXTENSION_NAME)) return Texels::storage;
  return uniform ? Texels::uniform : Texels::none;
}

bool Physical::loads_storage_texels() const {
  if (!wanted_.features.shaderStorageImageExtendedFormats) return false;
  constexpr VkFormat formats[] = {VK_FORMAT_R32_SFLOAT, VK_FORMAT_R32_SINT, VK_FORMAT_R16_UINT,
                                  VK_FORMAT_R8_SINT,    VK_FORMAT_R8_UINT,  VK_FORMAT_R32G32B32A32_UINT};
  return std::all_of(std::begin(formats), std::end(formats), [&](VkFormat format) {
    VkFormatProperties properties;
    vkGetPhysicalDeviceFormatProperties(handle_, format, &properties);
    return (properties.bufferFeatures & VK_FORMAT_FEATURE_STORAGE_TEXEL_BUFFER_BIT) != 0;
  });
}

void Physical::read_memory(VkDeviceSize largest_buffer) {
  vkGetPhysicalDeviceMemoryProperties(handle_, &memory_);
  Caps& caps = info_.caps;
  VkDeviceSize heap = 0;
  for (uint32_t i = 0; i < memory_.memoryHeapCount; ++i) {
    const VkMemoryHeap& one = memory_.memoryHeaps[i];
    if (caps.device_class == DeviceClass::integrated_gpu) {
      heap += one.size;  // all of it is the machine's memory
    } else if (one.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      heap = std::max(heap, one.size);
    }
  }
  // A CPU driver's heap is an invented figure (lavapipe: 2 GiB); the machine's memory is the honest one.
  if (caps.device_class == DeviceClass::cpu) {
    if (const uint64_t memory = os::memory_bytes(); memory > 0) heap = memory;
  }
  caps.memory_bytes = heap;
  caps.max_allocation_bytes = std::min(largest_buffer, heap);
  caps.max_binding_bytes = std::min(caps.max_binding_bytes, caps.max_allocation_bytes);
  caps.unified_memory = caps.device_class != DeviceClass::discrete_gpu;
}

void Physical::read_matrix_units_khr() {
  const auto get = reinterpret_cast<GetCooperativeMatrixPropertiesKHR>(
      vkGetInstanceProcAddr(volkGetLoadedInstance(), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  uint32_t count = 0;
  if (!get || get(handle_, &count, nullptr) < 0) return;
  CooperativeMatrixPropertiesKHR empty{};
  empty.sType = cooperative_matrix_properties_khr;
  std::vector<CooperativeMatrixPropertiesKHR> shapes(count, empty);
  if (get(handle_, &count, shapes.data()) < 0) return;
  for (const auto& s : shapes) {
    if (s.scope != VK_SCOPE_SUBGROUP_NV || s.AType != s.BType || s.CType != s.ResultType || s.saturatingAccumulation)
      continue;
    add_shape(info_.caps.matrix_units, "KHR", known_shape(s.MSize, s.NSize, s.KSize, s.AType, s.ResultType));
  }
}

void Physical::read_matrix_units() {
  // Their kernels hold f16 and i8 in registers.
  if (!narrow_.shaderFloat16 || !narrow_.shaderInt8) return;
  if (matrix_khr_.cooperativeMatrix) return read_matrix_units_khr();
  if (!matrix_.cooperativeMatrix) return;
  uint32_t count = 0;
  if (vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(handle_, &count, nullptr) < 0) return;
  std::vector<VkCooperativeMatrixPropertiesNV> shapes(count, {VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV});
  if (vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(handle_, &count, shapes.data()) < 0) return;
  for (const auto& s : shapes) {
    if (s.scope != VK_SCOPE_SUBGROUP_NV || s.AType != s.BType || s.CType != s.DType) continue;
    add_shape(info_.caps.matrix_units, "NV", known_shape(s.MSize, s.NSize, s.KSize, s.AType, s.DType));
  }
}

void Physical::choose_queue() {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(handle_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(handle_, &count, families.data());
  // A family without graphics is preferred: a long kernel then does not hold up the desktop.
  for (const bool with_graphics : {false, true}) {
    for (uint32_t i = 0; i < count && queue_family_ == UINT32_MAX; ++i) {
      const VkQueueFlags flags = families[i].queueFlags;
      const bool graphics = (flags & VK_QUEUE_GRAPHICS_BIT) != 0;
      if (!(flags & VK_QUEUE_COMPUTE_BIT) || graphics != with_graphics || families[i].queueCount == 0) continue;
      queue_family_ = i;
      timestamp_bits_ = timestamp_seconds_ > 0 ? families[i].timestampValidBits : 0;
    }
  }
}

void Physical::judge() {
  if (queue_family_ == UINT32_MAX) {
    info_.reason = "the device has no compute queue";
  }
  info_.available = info_.reason.empty();
  info_.caps.async = true;
  info_.caps.uploads_beside = info_.caps.unified_memory;
  info_.caps.times = timestamp_bits_ > 0;
}

}  // namespace heddle::vulkan
