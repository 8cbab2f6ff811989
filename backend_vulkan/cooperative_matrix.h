// VK_KHR_cooperative_matrix, which is younger than the oldest Vulkan headers that Heddle builds with: the part of its
// interface that is used here, copied from the specification. Thread safety: plain types.
#pragma once

#include <cstdint>

#include "heddle/backend_vulkan/vk.h"

namespace heddle::vulkan {

inline constexpr const char* cooperative_matrix_khr = "VK_KHR_cooperative_matrix";
inline constexpr auto cooperative_matrix_features_khr = static_cast<VkStructureType>(1000506000);
inline constexpr auto cooperative_matrix_properties_khr = static_cast<VkStructureType>(1000506001);

struct CooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};

// Component types and scopes have the values of the NV extension.
struct CooperativeMatrixPropertiesKHR {
  VkStructureType sType;
  void* pNext;
  uint32_t MSize, NSize, KSize;
  VkComponentTypeNV AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  VkScopeNV scope;
};

using GetCooperativeMatrixPropertiesKHR = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*,
                                                               CooperativeMatrixPropertiesKHR*);

}  // namespace heddle::vulkan
