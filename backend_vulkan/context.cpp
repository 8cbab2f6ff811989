#include "heddle/backend_vulkan/context.h"

#include <fmt/format.h>

#include <bit>

#include "heddle/core/base/error.h"

namespace heddle::vulkan {

Context::Context(VkPhysicalDevice handle, int index) : physical_(handle, index) {
  const DeviceInfo& info = physical_.info();
  if (!info.available)
    throw DeviceUnavailable(fmt::format("[{}] {} cannot be used: {}", info.id, info.name, info.reason));
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = physical_.queue_family();
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo create{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &physical_.wanted()};
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  create.enabledExtensionCount = static_cast<uint32_t>(physical_.extensions().size());
  create.ppEnabledExtensionNames = physical_.extensions().data();
  vulkan::check(vkCreateDevice(handle, &create, nullptr, &device_), "vkCreateDevice", info.name);
  vkGetDeviceQueue(device_, physical_.queue_family(), 0, &queue_);
}

Context::~Context() { vkDestroyDevice(device_, nullptr); }

uint32_t Context::memory_type(uint32_t allowed, VkMemoryPropertyFlags needed, VkMemoryPropertyFlags liked) const {
  const auto& memory = physical_.memory();
  uint32_t best = UINT32_MAX;
  int best_score = -1;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    const int score = std::popcount(flags & liked);
    if (!(allowed & (1u << i)) || (flags & needed) != needed || score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

VkMemoryPropertyFlags Context::memory_flags(uint32_t type) const {
  return physical_.memory().memoryTypes[type].propertyFlags;
}

void Context::check(VkResult result, std::string_view call) {
  if (result >= 0) return;
  if (result != VK_ERROR_DEVICE_LOST) vulkan::check(result, call);
  const std::string work = last_work_ ? fmt::format("; last work: {}", *last_work_) : std::string();
  set_lost(fmt::format("{} failed: VK_ERROR_DEVICE_LOST ({}){}", call, static_cast<int>(result), work));
  guard();
}

void Context::timed_out(double seconds) {
  const std::string work = last_work_ ? fmt::format("; last work: {}", *last_work_) : std::string();
  given_up_ = true;
  set_lost(fmt::format("it finished nothing for {} s (HEDDLE_TIMEOUT){}", seconds, work));
  throw DeviceTimeout(
      fmt::format("[{}] {} does not answer: {}; a smaller batch makes shorter work; open the device again and go on "
                  "from a checkpoint",
                  physical_.info().id, physical_.info().name, lost_reason_));
}

void Context::guard() const {
  if (!lost_) return;
  const DeviceInfo& info = physical_.info();
  throw DeviceLost(fmt::format("[{}] {} is lost: {}; open the device again and go on from a checkpoint", info.id,
                               info.name, lost_reason_));
}

void Context::set_lost(std::string reason) {
  const std::lock_guard lock(lost_mutex_);
  if (lost_) return;
  lost_reason_ = std::move(reason);
  lost_ = true;
}

}  // namespace heddle::vulkan
