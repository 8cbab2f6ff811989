// Transfers: host <-> device copies in queue order, and the submission of work behind them.
//
// Purpose: write() must neither race with work in flight nor wait for it. Where memory is mapped and the queue is idle
// the bytes are written in place; otherwise they go into a ring of staging memory and a copy command is kept in an open
// command buffer, which the next submission carries in front of its own work.
// Invariants: everything enqueued through upload() precedes, on the queue, whatever submit() is given afterwards.
// Thread safety: none; used by one device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/backend_vulkan/hazards.h"
#include "heddle/backend_vulkan/memory.h"
#include "heddle/backend_vulkan/queue.h"
#include "heddle/core/base/fifo.h"

namespace heddle::vulkan {

class Transfers {
 public:
  Transfers(Context& context, Memory& memory, Queue& queue);
  ~Transfers();

  void upload(BufferId id, uint64_t offset, const std::byte* source, uint64_t bytes);
  // As upload(); nothing enqueued after ticket `after` touches the bytes. Where memory is mapped and that submission
  // has finished they are written in place, while later ones run. Else they ride in front of the next submission.
  void upload_beside(BufferId id, uint64_t offset, const std::byte* source, uint64_t bytes, uint64_t after);
  // Waits for everything enqueued before.
  void download(BufferId id, uint64_t offset, std::byte* target, uint64_t bytes);
  // As download(), but does not wait: `target` is filled by whoever finds the returned ticket complete.
  uint64_t download_later(BufferId id, uint64_t offset, std::byte* target, uint64_t bytes);
  // The same of bytes that nothing writes until the ticket is complete: no copy of mapped memory is made on the device.
  // 0: `target` is filled.
  uint64_t download_in_place(BufferId id, uint64_t offset, std::byte* target, uint64_t bytes);
  // Submits the open copies and then `work` (may be null) as one submission; returns its ticket, or that of the newest
  // submission when there is nothing to submit.
  uint64_t submit(VkCommandBuffer work);
  // The ticket after which everything enqueued so far has finished.
  uint64_t horizon() const { return open_ ? queue_.last() + 1 : queue_.last(); }

 private:
  // Whether the host copies from where the bytes are.
  static bool in_place(const Buffer& source, uint64_t bytes) {
    return source.mapped && (source.host_cached || bytes <= 4096);
  }
  VkCommandBuffer begin();
  void copy(VkBuffer source, uint64_t source_offset, const Binding& target, VkBuffer target_handle);
  // Position in the ring with room for `bytes`; waits for earlier copies when the ring is full.
  uint64_t reserve(uint64_t bytes);
  void reclaim();

  struct RingMark {
    uint64_t ticket;
    uint64_t head;
  };

  static constexpr uint64_t ring_bytes = 16u << 20;
  static constexpr uint64_t chunk_bytes = ring_bytes / 4;
  static constexpr size_t kept_slots = 8;

  Context& context_;
  Memory& memory_;
  Queue& queue_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkCommandBuffer> spare_;
  VkCommandBuffer open_ = VK_NULL_HANDLE;
  uint64_t open_bytes_ = 0;
  Hazards open_hazards_;
  std::optional<Buffer> ring_, readback_;
  std::vector<Buffer> later_;     // readback buffers of finished download_later() calls, to be used again
  uint64_t head_ = 0, tail_ = 0;  // bytes ever reserved and released; the ring holds what lies between
  Fifo<RingMark> marks_;
};

}  // namespace heddle::vulkan
