// Context: one opened VkDevice with its queue, and the state of its health. The parts of a device share it.
//
// Invariants: once `lost` is set it stays set; every Vulkan result goes through check(), which sets it.
// Thread safety: check() and guard() may be called from several threads; used by one device.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "heddle/backend_vulkan/physical.h"
#include "heddle/backend_vulkan/vk.h"

namespace heddle::vulkan {

class Context {
 public:
  // Throws DeviceUnavailable when the physical device cannot be used, DeviceError when Vulkan refuses.
  explicit Context(VkPhysicalDevice handle, int index);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  VkDevice device() const { return device_; }
  VkQueue queue() const { return queue_; }
  const Physical& physical() const { return physical_; }
  const Caps& caps() const { return physical_.info().caps; }

  // The first memory type with all of `needed` and most of `liked`; UINT32_MAX when none fits.
  uint32_t memory_type(uint32_t allowed, VkMemoryPropertyFlags needed, VkMemoryPropertyFlags liked) const;
  VkMemoryPropertyFlags memory_flags(uint32_t type) const;

  // As vulkan::check; a lost device is remembered and named with the work that it was last given.
  void check(VkResult result, std::string_view call);
  // Throws DeviceLost when the device is lost.
  void guard() const;
  bool lost() const { return lost_; }
  void set_lost(std::string reason);
  // Gives the device up because it finished nothing for that long.
  [[noreturn]] void timed_out(double seconds);
  // Its work may never end: nothing it uses can be given back.
  bool given_up() const { return given_up_; }
  // The time stamp that all later ones are counted from: the first that is given here.
  uint64_t epoch(uint64_t first) { return epoch_ == 0 ? epoch_ = first : epoch_; }
  // What the newest submission does, for the text of DeviceLost.
  void set_last_work(std::shared_ptr<const std::string> work) { last_work_ = std::move(work); }

 private:
  Physical physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::atomic<bool> lost_ = false;
  bool given_up_ = false;
  uint64_t epoch_ = 0;
  std::mutex lost_mutex_;    // kernels are compiled by several threads
  std::string lost_reason_;  // written once, before lost_
  std::shared_ptr<const std::string> last_work_;
};

}  // namespace heddle::vulkan
