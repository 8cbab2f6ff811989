// Memory: the device's buffers, each with memory of its own (core's caching allocator keeps their number small).
//
// Invariants: a buffer's memory is mapped for its whole life exactly when `mapped` is set; that is so where the host
// and the device share memory and the mapping is coherent. A buffer's VkBuffer is padded to 16 bytes. Thread safety:
// none; used by one device.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "heddle/backend_vulkan/context.h"
#include "heddle/core/contract/device.h"

namespace heddle::vulkan {

struct Buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t bytes = 0;  // as asked for
  std::byte* mapped = nullptr;
  bool host_cached = false;  // reading the mapping is fast
  bool adopted = false;      // the memory is the host's own, and not counted
};

// What a buffer is for decides where its memory comes from.
enum class Residence : uint8_t { device, upload, readback };

class Memory {
 public:
  // staged: buffers are never mapped, as on a discrete GPU (for tests of that path on any device).
  Memory(Context& context, bool staged) : context_(context), staged_(staged) {}
  ~Memory();

  // Whether buffers are mapped.
  bool shared() const { return !staged_ && context_.caps().unified_memory; }
  // A buffer outside the table, for the backend's own use. Throws OutOfMemory or LimitError.
  Buffer make(uint64_t bytes, Residence residence);
  // A buffer in memory of the host's, both multiples of Physical::imported_unit(). Nothing: the driver does not take
  // it.
  std::optional<Buffer> adopt(void* memory, uint64_t bytes);
  void destroy(const Buffer& buffer);

  BufferId add(const Buffer& buffer);
  // Null when the id is not alive.
  const Buffer* find(BufferId id) const;
  // The buffer, once the range is known to lie inside it; throws DeviceError otherwise.
  const Buffer& get(BufferId id, uint64_t offset, uint64_t bytes, const char* place) const;
  // Takes the buffer out of the table without destroying it; throws DeviceError when the id is not alive.
  Buffer take(BufferId id);

 private:
  VkMemoryPropertyFlags properties(Residence residence, VkMemoryPropertyFlags* liked) const;
  VkBufferCreateInfo description(uint64_t bytes) const;
  bool bind_to(Buffer& buffer, void* memory);

  Context& context_;
  bool staged_;
  uint64_t next_ = 1;
  uint64_t live_bytes_ = 0;
  std::unordered_map<BufferId, Buffer> buffers_;
};

}  // namespace heddle::vulkan
