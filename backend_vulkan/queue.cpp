#include "heddle/backend_vulkan/queue.h"

#include <algorithm>
#include <utility>

namespace heddle::vulkan {

Queue::~Queue() {
  drain();
  for (const VkFence fence : spare_) vkDestroyFence(context_.device(), fence, nullptr);
}

VkFence Queue::take_fence() {
  VkFence fence = VK_NULL_HANDLE;
  if (!spare_.empty()) {
    fence = spare_.back();
    context_.check(vkResetFences(context_.device(), 1, &fence), "vkResetFences");
    spare_.pop_back();
    return fence;
  }
  const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  context_.check(vkCreateFence(context_.device(), &info, nullptr, &fence), "vkCreateFence");
  return fence;
}

uint64_t Queue::submit(std::span<const VkCommandBuffer> commands) {
  completed();
  if (in_flight_.size() >= max_in_flight) wait(in_flight_.front().ticket);
  const VkFence fence = take_fence();
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = static_cast<uint32_t>(commands.size());
  info.pCommandBuffers = commands.data();
  const VkResult result = fail_next_ ? VK_ERROR_DEVICE_LOST : vkQueueSubmit(context_.queue(), 1, &info, fence);
  fail_next_ = false;
  if (result < 0) spare_.push_back(fence);
  context_.check(result, "vkQueueSubmit");
  in_flight_.push_back({++last_, fence});
  return last_;
}

void Queue::wait(uint64_t ticket) {
  while (!in_flight_.empty() && completed_ < ticket) {
    // Only the newest fence that is needed is waited for; the ones before it are then done as well.
    size_t newest = 0;
    while (newest + 1 < in_flight_.size() && in_flight_[newest + 1].ticket <= ticket) ++newest;
    const VkFence fence = in_flight_[newest].fence;
    wait_for(fence);
    while (!in_flight_.empty() && in_flight_.front().ticket <= ticket) finish_front();
  }
  run_due();
}

std::unique_ptr<Waiter> Queue::waiter(uint64_t ticket) {
  std::vector<VkFence> fences;
  for (const InFlight& entry : in_flight_) {
    if (entry.ticket > ticket) break;
    if (limit_ <= 0) fences.clear();  // of the newest alone: the ones before it are then done as well
    fences.push_back(entry.fence);
  }
  if (fences.empty()) return nullptr;
  return std::make_unique<EventWaiter<Queue, VkFence>>(*this, std::move(fences), limit_, stuck_);
}

bool Queue::over(VkFence fence) const noexcept { return vkGetFenceStatus(context_.device(), fence) != VK_NOT_READY; }

void Queue::block_quietly(VkFence fence) const noexcept {
  vkWaitForFences(context_.device(), 1, &fence, VK_TRUE, UINT64_MAX);
}

// With a limit: every submission in turn may take that long.
void Queue::wait_for(VkFence fence) {
  VkResult result = VK_TIMEOUT;
  if (limit_ <= 0) {
    result = vkWaitForFences(context_.device(), 1, &fence, VK_TRUE, UINT64_MAX);
  } else {
    if (stuck_ && vkGetFenceStatus(context_.device(), fence) == VK_NOT_READY) context_.timed_out(limit_);
    const auto nanoseconds = static_cast<uint64_t>(limit_ * 1e9);
    for (const InFlight& entry : in_flight_) {
      result = vkWaitForFences(context_.device(), 1, &entry.fence, VK_TRUE, nanoseconds);
      if (result != VK_SUCCESS || entry.fence == fence) break;
    }
    if (result == VK_TIMEOUT) context_.timed_out(limit_);
  }
  context_.check(result, "vkWaitForFences");
}

uint64_t Queue::completed() {
  while (!in_flight_.empty()) {
    const VkResult status = vkGetFenceStatus(context_.device(), in_flight_.front().fence);
    if (status == VK_NOT_READY) break;
    context_.check(status, "vkGetFenceStatus");
    finish_front();
  }
  run_due();
  return completed_;
}

void Queue::finish_front() {
  completed_ = in_flight_.front().ticket;
  release(in_flight_.front().fence);
  in_flight_.pop_front();
}

void Queue::when_done(uint64_t ticket, std::function<void()> work) {
  if (ticket <= completed_) {
    work();
  } else {
    const auto after =
        std::find_if(deferred_.begin(), deferred_.end(), [&](const auto& d) { return d.first > ticket; });
    deferred_.emplace(after, ticket, std::move(work));
  }
}

void Queue::run_due() {
  while (!deferred_.empty() && deferred_.begin()->first <= completed_) {
    const auto work = std::move(deferred_.begin()->second);
    deferred_.erase(deferred_.begin());
    work();
  }
}

void Queue::drain() {
  vkDeviceWaitIdle(context_.device());  // a lost device answers with an error and is idle too
  while (!in_flight_.empty()) finish_front();
  completed_ = UINT64_MAX;
  run_due();
}

namespace {

// What was written by these stages is there for them, and for the stages and accesses of `also`.
void barrier_of(VkCommandBuffer commands, bool transfers, VkPipelineStageFlags also, VkAccessFlags also_reads) {
  VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | also_reads;
  if (transfers) {
    stages |= VK_PIPELINE_STAGE_TRANSFER_BIT;
    barrier.srcAccessMask |= VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  }
  vkCmdPipelineBarrier(commands, stages, stages | also, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

void end_barrier(VkCommandBuffer commands) {
  barrier_of(commands, true, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

void order_barrier(VkCommandBuffer commands, bool transfers) { barrier_of(commands, transfers, 0, 0); }

}  // namespace heddle::vulkan
