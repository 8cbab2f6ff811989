#include "heddle/backend_vulkan/transfers.h"

#include <algorithm>
#include <cstring>

namespace heddle::vulkan {

Transfers::Transfers(Context& context, Memory& memory, Queue& queue)
    : context_(context), memory_(memory), queue_(queue) {
  VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  info.queueFamilyIndex = context_.physical().queue_family();
  context_.check(vkCreateCommandPool(context_.device(), &info, nullptr, &pool_), "vkCreateCommandPool");
}

Transfers::~Transfers() {
  vkDestroyCommandPool(context_.device(), pool_, nullptr);
  if (ring_) memory_.destroy(*ring_);
  if (readback_) memory_.destroy(*readback_);
  for (const Buffer& buffer : later_) memory_.destroy(buffer);
}

void Transfers::upload(BufferId id, uint64_t offset, const std::byte* source, uint64_t bytes) {
  const Buffer& target = memory_.get(id, offset, bytes, "write");
  if (bytes == 0) return;
  const bool large = bytes > chunk_bytes;
  if (target.mapped && ((!open_ && queue_.idle()) || large)) {
    // In place. A large write to shared memory waits: that costs less than copying it twice.
    queue_.wait(submit(VK_NULL_HANDLE));
    std::memcpy(target.mapped + offset, source, bytes);
    return;
  }
  if (!ring_) ring_ = memory_.make(ring_bytes, Residence::upload);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = std::min(bytes - done, chunk_bytes);
    const uint64_t position = reserve(part);
    std::memcpy(ring_->mapped + position, source + done, part);
    copy(ring_->handle, position, {id, offset + done, part}, target.handle);
    done += part;
    open_bytes_ += part;
    if (open_bytes_ >= chunk_bytes) submit(VK_NULL_HANDLE);  // let the device start while the host fills the next part
  }
}

void Transfers::upload_beside(BufferId id, uint64_t offset, const std::byte* source, uint64_t bytes, uint64_t after) {
  const Buffer& target = memory_.get(id, offset, bytes, "write");
  if (bytes == 0) return;
  const Touch touch{{id, offset, bytes}, false, true};
  const bool pending = open_ && open_hazards_.conflict({&touch, 1});  // an earlier write, not yet submitted
  if (!target.mapped || pending || after > queue_.completed()) return upload(id, offset, source, bytes);
  std::memcpy(target.mapped + offset, source, bytes);
}

void Transfers::copy(VkBuffer source, uint64_t source_offset, const Binding& target, VkBuffer target_handle) {
  const VkCommandBuffer commands = begin();
  const Touch touch{target, false, true};
  if (open_hazards_.conflict({&touch, 1})) {
    end_barrier(commands);
    open_hazards_.clear();
  }
  open_hazards_.add({&touch, 1});
  const VkBufferCopy region{source_offset, target.offset, target.size};
  vkCmdCopyBuffer(commands, source, target_handle, 1, &region);
}

VkCommandBuffer Transfers::begin() {
  if (open_) return open_;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  if (spare_.empty()) {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    context_.check(vkAllocateCommandBuffers(context_.device(), &info, &commands), "vkAllocateCommandBuffers");
  } else {
    commands = spare_.back();
    spare_.pop_back();
  }
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  context_.check(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
  open_ = commands;
  return open_;
}

uint64_t Transfers::submit(VkCommandBuffer work) {
  VkCommandBuffer commands[2];
  uint32_t count = 0;
  const VkCommandBuffer copies = open_;
  if (copies) {
    open_ = VK_NULL_HANDLE;
    open_bytes_ = 0;
    open_hazards_.clear();
    end_barrier(copies);
    context_.check(vkEndCommandBuffer(copies), "vkEndCommandBuffer");
    commands[count++] = copies;
  }
  if (work) commands[count++] = work;
  if (count == 0) return queue_.last();
  const uint64_t ticket = queue_.submit({commands, count});
  if (copies) {
    marks_.push_back({ticket, head_});
    queue_.when_done(ticket, [this, copies] { spare_.push_back(copies); });
  }
  return ticket;
}

void Transfers::reclaim() {
  const uint64_t completed = queue_.completed();
  while (!marks_.empty() && marks_.front().ticket <= completed) {
    tail_ = marks_.front().head;
    marks_.pop_front();
  }
}

uint64_t Transfers::reserve(uint64_t bytes) {
  for (;;) {
    reclaim();
    uint64_t start = (head_ + 15) / 16 * 16;
    if (start % ring_bytes + bytes > ring_bytes) start = (start / ring_bytes + 1) * ring_bytes;  // not across the end
    if (start + bytes - tail_ <= ring_bytes) {
      head_ = start + bytes;
      return start % ring_bytes;
    }
    if (open_) submit(VK_NULL_HANDLE);
    queue_.wait(marks_.front().ticket);
  }
}

void Transfers::download(BufferId id, uint64_t offset, std::byte* target, uint64_t bytes) {
  const Buffer& source = memory_.get(id, offset, bytes, "read");
  if (in_place(source, bytes)) {
    queue_.wait(submit(VK_NULL_HANDLE));
    std::memcpy(target, source.mapped + offset, bytes);
    return;
  }
  if (!readback_) readback_ = memory_.make(ring_bytes, Residence::readback);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = std::min(bytes - done, ring_bytes);
    // Copies that are still open may write what is read here, in the same command buffer.
    if (open_) submit(VK_NULL_HANDLE);
    const VkBufferCopy region{offset + done, 0, part};
    vkCmdCopyBuffer(begin(), source.handle, readback_->handle, 1, &region);
    queue_.wait(submit(VK_NULL_HANDLE));
    std::memcpy(target + done, readback_->mapped, part);
    done += part;
  }
}

uint64_t Transfers::download_in_place(BufferId id, uint64_t offset, std::byte* target, uint64_t bytes) {
  const Buffer& source = memory_.get(id, offset, bytes, "read");
  if (!in_place(source, bytes)) return download_later(id, offset, target, bytes);
  const uint64_t ticket = submit(VK_NULL_HANDLE);
  if (ticket <= queue_.completed()) {
    std::memcpy(target, source.mapped + offset, bytes);
    return 0;
  }
  // A buffer that is freed meanwhile is destroyed after this: its work is deferred later, to the same ticket at least.
  queue_.when_done(ticket, [from = source.mapped + offset, target, bytes] { std::memcpy(target, from, bytes); });
  return ticket;
}

// Copied on the device first: what is submitted after this call may overwrite the source before the host comes to look.
uint64_t Transfers::download_later(BufferId id, uint64_t offset, std::byte* target, uint64_t bytes) {
  const Buffer& source = memory_.get(id, offset, bytes, "read");
  if (bytes == 0) return queue_.last();
  Buffer slot;
  const auto fits = std::find_if(later_.begin(), later_.end(), [&](const Buffer& b) { return b.bytes >= bytes; });
  if (fits != later_.end()) {
    slot = *fits;
    later_.erase(fits);
  } else {
    slot = memory_.make(std::max<uint64_t>(bytes, 4096), Residence::readback);
  }
  if (open_) submit(VK_NULL_HANDLE);
  const VkBufferCopy region{offset, 0, bytes};
  vkCmdCopyBuffer(begin(), source.handle, slot.handle, 1, &region);
  const uint64_t ticket = submit(VK_NULL_HANDLE);
  queue_.when_done(ticket, [this, slot, target, bytes] {
    std::memcpy(target, slot.mapped, bytes);
    if (later_.size() < kept_slots && slot.bytes <= chunk_bytes)
      later_.push_back(slot);
    else
      memory_.destroy(slot);
  });
  return ticket;
}

}  // namespace heddle::vulkan
