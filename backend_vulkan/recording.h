// Recording: a list of commands as a command buffer that can be submitted again and again.
//
// Invariants: barriers stand only where byte ranges overlap (in a timed recording: between all commands, so that each
// time is one command's own); the recording keeps its kernels alive; it may be submitted while it is still running.
// Thread safety: none; used by one device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/backend_vulkan/hazards.h"
#include "heddle/backend_vulkan/kernels.h"
#include "heddle/backend_vulkan/memory.h"

namespace heddle::vulkan {

class Recording {
 public:
  Recording(Context& context, const Memory& memory, const Kernels& kernels, VkCommandPool pool,
            std::span<const Command> commands, bool timed, double slice_seconds);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // One or more command buffers, to be submitted one by one in this order: a watchdog counts each submission by itself.
  const std::vector<VkCommandBuffer>& slices() const { return slices_; }
  bool timed() const { return queries_ != VK_NULL_HANDLE; }
  // When each command of the newest submission ran, which must have finished.
  std::vector<CommandTime> times() const;
  // Its last few commands, for the text of DeviceLost.
  const std::shared_ptr<const std::string>& summary() const { return summary_; }
  uint32_t barriers() const { return barriers_; }

  uint64_t last_ticket = 0;  // of the newest submission

 private:
  void destroy();
  void make_pool(std::span<const Command> commands);
  void record(std::span<const Command> commands, double slice_seconds);
  void begin_slice();
  void end_slice();
  void record(const Dispatch& dispatch);
  void record(const Copy& copy);
  void record(const Fill& fill);
  void bind(const Dispatch& dispatch, const Kernel& kernel);
  Binding seen(const Binding& binding) const;
  void write_set(VkDescriptorSet set, const Dispatch& dispatch, const Kernel& kernel);
  VkBufferView view(const Binding& binding, VkFormat format, uint64_t texel);
  void order(std::span<const Touch> touches, bool transfer);

  Context& context_;
  const Memory& memory_;
  const Kernels& table_;
  VkCommandPool command_pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;  // of the slice that is being recorded
  std::vector<VkCommandBuffer> slices_;
  VkDescriptorPool sets_ = VK_NULL_HANDLE;
  struct View {
    Binding binding;
    VkFormat format;
    VkBufferView handle;
  };
  std::vector<View> views_;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  uint32_t count_ = 0;
  uint32_t barriers_ = 0;
  Hazards hazards_;
  // Of the commands since the last barrier, whether one copies or fills; and whether that barrier was for these too.
  bool transfers_ = false, transfers_ordered_ = true;
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::vector<std::shared_ptr<Kernel>> kernels_;
  std::shared_ptr<const std::string> summary_;
};

}  // namespace heddle::vulkan
