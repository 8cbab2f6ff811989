// Queue: the device's one in-order queue. Submissions carry rising tickets; a ticket is complete when its fence is.
//
// Purpose: submit, wait, and run deferred work (destroying what a submission used) once that submission has finished.
// Fences rather than timeline semaphores: they exist in every Vulkan version, so there is one path to test.
// Invariants: submissions finish in order, so a complete ticket means that all before it are complete.
// Every submitted command buffer ends with end_barrier(), so that a later one sees everything done before it.
// Thread safety: none; used by one device. What waiter() gives may block beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "heddle/backend_vulkan/context.h"
#include "heddle/core/base/fifo.h"
#include "heddle/core/device/in_flight.h"

namespace heddle::vulkan {

class Queue {
 public:
  explicit Queue(Context& context) : context_(context) {}
  ~Queue();

  // Enqueues the command buffers as one submission.
  uint64_t submit(std::span<const VkCommandBuffer> commands);
  void wait(uint64_t ticket);
  // Null when it is complete.
  std::unique_ptr<Waiter> waiter(uint64_t ticket);
  // Polls the fences, runs what became due, and returns the newest complete ticket.
  uint64_t completed();
  bool idle() { return completed() == last_; }
  // Ticket of the newest submission, 0 before the first.
  uint64_t last() const { return last_; }
  // Runs `work` once the ticket is complete; it may be the ticket of the next submission. Everything left runs in
  // drain().
  void when_done(uint64_t ticket, std::function<void()> work);
  // Waits for the device, also for a lost one, and runs all deferred work. For the end of the device's life.
  void drain();
  // Makes the next submission fail as if the driver had returned VK_ERROR_DEVICE_LOST.
  void fail_next() { fail_next_ = true; }

 private:
  struct InFlight {
    uint64_t ticket;
    VkFence fence;
  };

  friend class EventWaiter<Queue, VkFence>;
  void keep(VkFence fence) { kept_.keep(fence); }
  void release(VkFence fence) {
    if (kept_.release(fence)) spare_.push_back(fence);
  }
  bool over(VkFence fence) const noexcept;
  void block_quietly(VkFence fence) const noexcept;

  VkFence take_fence();
  void wait_for(VkFence fence);
  void finish_front();
  void run_due();

  // A program that never looks at a result runs at most this far ahead of the device.
  static constexpr size_t max_in_flight = 256;

  Context& context_;
  uint64_t last_ = 0;
  uint64_t completed_ = 0;
  bool fail_next_ = false;
  double limit_ = timeout_seconds();  // 0: none
  Fifo<InFlight> in_flight_;
  std::vector<VkFence> spare_;
  KeptEvents<VkFence> kept_;                                          // by waiters
  std::atomic<bool> stuck_ = false;                                   // a waiter saw no progress for so long
  std::vector<std::pair<uint64_t, std::function<void()>>> deferred_;  // by ticket, rising
};

// Records a barrier after which every command sees all that was done before it on the queue, and, once the submission
// has finished, so does the host.
void end_barrier(VkCommandBuffer commands);
// Records one after which dispatches see what dispatches before it did, and with `transfers` copies and fills do and
// are seen as well. The host is left out: a barrier for it takes NVIDIA's GPUs several microseconds.
void order_barrier(VkCommandBuffer commands, bool transfers);

}  // namespace heddle::vulkan
