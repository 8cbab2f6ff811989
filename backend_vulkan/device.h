// VulkanDevice: the eleven calls of core/contract/device.h on one VkDevice.
//
// Invariants: parts are declared in the order in which they need each other; close() ends all work and destroys them,
// once. What submissions may still use is destroyed after they have finished. Thread safety: none, as the contract
// says.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "heddle/backend_vulkan/context.h"
#include "heddle/backend_vulkan/kernels.h"
#include "heddle/backend_vulkan/memory.h"
#include "heddle/backend_vulkan/queue.h"
#include "heddle/backend_vulkan/recording.h"
#include "heddle/backend_vulkan/transfers.h"
#include "heddle/core/contract/host_memory.h"
#include "heddle/core/contract/loading_device.h"

namespace heddle::vulkan {

class VulkanDevice final : public LoadingDevice, public HostMemory {
 public:
  VulkanDevice(VkPhysicalDevice handle, int index);
  ~VulkanDevice() override;

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId buffer) override;
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override;
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries) override;
  void release(KernelId kernel) override;
  RecordingId record(std::span<const Command> commands, bool timed) override;
  void release(RecordingId recording) override;
  Ticket submit(RecordingId recording) override;
  void wait(Ticket ticket, std::vector<double>* seconds) override;
  std::vector<CommandTime> command_times(Ticket ticket) override;
  bool done(Ticket ticket) override;
  std::unique_ptr<Waiter> waiter(Ticket ticket) override;
  Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  Ticket read_in_place(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  void write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket after) override;
  BufferId alloc_host(uint64_t bytes) override;
  // Where host and device share memory, buffers are mapped; arrays of others may be buffers with
  // VK_EXT_external_memory_host.
  bool shares_memory() override;
  void* host_address(BufferId buffer) override;
  uint64_t adopted_unit(HostUse use) const override;
  BufferId adopt(void* memory, uint64_t bytes, HostUse use) override;

  // Waits for all work and gives everything back; afterwards the device counts as lost. Also called when the process
  // ends, before the driver's own exit handlers run.
  void close();
  void fail_next_submit() { parts().queue.fail_next(); }

 private:
  struct Parts {
    Parts(VkPhysicalDevice handle, int index, bool staged);
    ~Parts();
    Context context;
    Memory memory;
    Queue queue;
    Transfers transfers;
    Kernels kernels;
    VkCommandPool pool = VK_NULL_HANDLE;
    std::unordered_map<RecordingId, std::shared_ptr<Recording>> recordings;
  };

  uint64_t known(Ticket ticket, const char* place) const;
  // The parts, if the device is alive; throws DeviceLost otherwise.
  Parts& parts() const;
  bool gone() const { return !parts_ || parts_->context.lost(); }
  const std::shared_ptr<Recording>& find(RecordingId id) const;
  // Keeps the times of a timed recording's newest submission, which must have finished.
  void keep_times(const Recording& recording);

  Caps caps_;
  std::string id_;
  double slice_seconds_ = 0;  // recordings are cut into submissions of about that long; 0: never
  std::unique_ptr<Parts> parts_;
  uint64_t next_recording_ = 1;
  std::map<uint64_t, std::weak_ptr<Recording>> timed_;  // ticket -> recording whose times were not read yet
  std::map<uint64_t, std::vector<CommandTime>> times_;  // ticket -> times of finished submissions, the newest few
};

}  // namespace heddle::vulkan
