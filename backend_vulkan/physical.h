// Physical: what a physical device can do, and which features and extensions Heddle switches on.
//
// Purpose: read once; turns Vulkan's properties into DeviceInfo and Caps.
// Invariants: `wanted` holds only features that the device offers and that printed kernels may need; its pNext chain
// points into the object, so it neither moves nor copies. Thread safety: immutable once made.
#pragma once

#include <string>
#include <vector>

#include "heddle/backend_vulkan/cooperative_matrix.h"
#include "heddle/backend_vulkan/vk.h"
#include "heddle/core/contract/device.h"

namespace heddle::vulkan {

// Through which descriptors kernels read what they do not write (Caps::texel_loads says that there are such): uniform
// texel buffers, whose fetches llvmpipe compiled into the kernel until Mesa 23.3; storage texel buffers, whose loads
// give their four values in registers where descriptors carry functions of the driver, and fetches give theirs in
// memory. HEDDLE_TEXELS (none, uniform, storage) forces one of them, for tests and measurements.
enum class Texels : uint8_t { none, uniform, storage };

class Physical {
 public:
  // Never throws; what is missing stands in info().reason.
  Physical(VkPhysicalDevice handle, int index);
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  VkPhysicalDevice handle() const { return handle_; }
  const DeviceInfo& info() const { return info_; }
  uint32_t queue_family() const { return queue_family_; }
  uint32_t timestamp_bits() const { return timestamp_bits_; }  // 0: the queue has no timestamps
  double timestamp_seconds() const { return timestamp_seconds_; }
  const VkPhysicalDeviceMemoryProperties& memory() const { return memory_; }
  // For vkCreateDevice.
  const VkPhysicalDeviceFeatures2& wanted() const { return wanted_; }
  const std::vector<const char*>& extensions() const { return extensions_; }
  Texels texels() const { return texels_; }
  // Addresses and lengths of the host's memory that buffers may lie in are multiples of it; 0: they cannot.
  uint64_t imported_unit() const { return imported_unit_; }
  // Pipelines may ask for Caps::subgroup_size lanes in every subgroup, and for subgroups without missing lanes.
  bool fixed_subgroups() const { return fixed_subgroups_; }
  // Kernels are loaded with a request to keep NaN, infinities and the sign of zero (float_controls.h).
  bool asks_for_nan() const { return asks_for_nan_; }
  bool full_subgroups() const { return subgroup_control_.computeFullSubgroups == VK_TRUE; }

 private:
  bool has(const char* extension) const;
  // Appends a feature or property structure to a chain.
  template <class T>
  static void chain(void*& head, T& link, VkStructureType type);
  void read_extensions();
  void read_features();
  // What HEDDLE_VULKAN_WITHOUT takes away from every device, as if its driver lacked it: a list with commas of
  // storage8, storage16, int64, f64 and subgroups. For tests of what devices of fewer capabilities get.
  void take_away();
  void read_properties();
  void read_limits(const VkPhysicalDeviceProperties2& properties);
  Texels choose_texels(const VkPhysicalDeviceLimits& limits) const;
  bool loads_storage_texels() const;
  void read_memory(VkDeviceSize largest_buffer);
  void read_matrix_units();
  void read_matrix_units_khr();
  void choose_queue();
  void judge();

  VkPhysicalDevice handle_;
  uint32_t api_ = 0;
  DeviceInfo info_;
  std::vector<VkExtensionProperties> offered_;
  std::vector<const char*> extensions_;
  VkPhysicalDeviceFeatures2 wanted_{};
  VkPhysicalDevice16BitStorageFeatures storage16_{};
  VkPhysicalDevice8BitStorageFeatures storage8_{};
  VkPhysicalDeviceShaderFloat16Int8Features narrow_{};
  VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures subgroup_types_{};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_{};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot_{};
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrix_{};
  CooperativeMatrixFeaturesKHR matrix_khr_{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_control_{};
  std::string without_;  // HEDDLE_VULKAN_WITHOUT
  bool subgroups_taken_ = false;
  bool fixed_subgroups_ = false;
  bool asks_for_nan_ = false;
  VkPhysicalDeviceMemoryProperties memory_{};
  uint32_t queue_family_ = UINT32_MAX;
  uint32_t timestamp_bits_ = 0;
  double timestamp_seconds_ = 0;
  uint64_t imported_unit_ = 0;
  Texels texels_ = Texels::none;
};

}  // namespace heddle::vulkan
