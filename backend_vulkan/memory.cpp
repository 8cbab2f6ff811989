#include "heddle/backend_vulkan/memory.h"

#include <fmt/format.h>

#include "heddle/backend_vulkan/labels.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/device/validate.h"

namespace heddle::vulkan {

Memory::~Memory() {
  for (const auto& [id, buffer] : buffers_) destroy(buffer);
}

VkMemoryPropertyFlags Memory::properties(Residence residence, VkMemoryPropertyFlags* liked) const {
  constexpr VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  *liked = 0;
  if (residence == Residence::upload) return host;
  if (residence == Residence::readback) {
    *liked = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    return host;
  }
  *liked = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  if (!shared()) return 0;
  *liked |= VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  return host;
}

VkBufferCreateInfo Memory::description(uint64_t bytes) const {
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = (bytes + 15) / 16 * 16;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  const Texels texels = context_.physical().texels();
  if (texels == Texels::uniform) info.usage |= VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT;
  if (texels == Texels::storage) info.usage |= VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  return info;
}

std::optional<Buffer> Memory::adopt(void* memory, uint64_t bytes) {
  if (bytes > context_.caps().max_allocation_bytes) return {};
  Buffer made;
  made.bytes = bytes;
  made.mapped = static_cast<std::byte*>(memory);
  made.host_cached = made.adopted = true;
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkBufferCreateInfo info = description(bytes);
  info.pNext = &external;
  if (vkCreateBuffer(context_.device(), &info, nullptr, &made.handle) != VK_SUCCESS) return {};
  if (bind_to(made, memory)) return made;
  destroy(made);
  return {};
}

// The memory must be of a type that the driver can import, that the buffer can have, and whose writes either side sees.
bool Memory::bind_to(Buffer& buffer, void* memory) {
  const VkDevice device = context_.device();
  constexpr auto host = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkMemoryHostPointerPropertiesEXT pointer{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  if (vkGetMemoryHostPointerPropertiesEXT(device, host, memory, &pointer) != VK_SUCCESS) return false;
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, buffer.handle, &needs);
  const uint32_t type =
      context_.memory_type(needs.memoryTypeBits & pointer.memoryTypeBits, VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0);
  if (type == UINT32_MAX || needs.size > buffer.bytes) return false;
  VkImportMemoryHostPointerInfoEXT import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT};
  import.handleType = host;
  import.pHostPointer = memory;
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &import};
  allocate.allocationSize = buffer.bytes;
  allocate.memoryTypeIndex = type;
  return vkAllocateMemory(device, &allocate, nullptr, &buffer.memory) == VK_SUCCESS &&
         vkBindBufferMemory(device, buffer.handle, buffer.memory, 0) == VK_SUCCESS;
}

Buffer Memory::make(uint64_t bytes, Residence residence) {
  const Caps& caps = context_.caps();
  check_allocation(bytes, caps);
  const std::string live = fmt::format("{} bytes asked for, {} of {} bytes live in {} buffers", bytes, live_bytes_,
                                       caps.memory_bytes, buffers_.size());
  if (caps.memory_bytes > 0 && live_bytes_ + bytes > caps.memory_bytes) {
    throw OutOfMemory(fmt::format("[vulkan alloc] out of device memory: {}", live));
  }
  Buffer made;
  made.bytes = bytes;
  const VkBufferCreateInfo info = description(bytes);
  context_.check(vkCreateBuffer(context_.device(), &info, nullptr, &made.handle), "vkCreateBuffer");
  try {
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(context_.device(), made.handle, &needs);
    VkMemoryPropertyFlags liked = 0;
    const VkMemoryPropertyFlags needed = properties(residence, &liked);
    VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = context_.memory_type(needs.memoryTypeBits, needed, liked);
    if (allocate.memoryTypeIndex == UINT32_MAX)
      throw DeviceError("[vulkan alloc] the driver has no memory type that fits a buffer");
    const VkResult result = vkAllocateMemory(context_.device(), &allocate, nullptr, &made.memory);
    if (result < 0 && result != VK_ERROR_DEVICE_LOST) vulkan::check(result, "vkAllocateMemory", live);
    context_.check(result, "vkAllocateMemory");
    context_.check(vkBindBufferMemory(context_.device(), made.handle, made.memory, 0), "vkBindBufferMemory");
    if (needed != 0) {
      void* mapped = nullptr;
      context_.check(vkMapMemory(context_.device(), made.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
      // Mesa 25's lavapipe allocates a stretch of a file, and hands out what mmap() gave without a look at it.
      if (os::is_failed_mapping(mapped)) vulkan::check(VK_ERROR_OUT_OF_HOST_MEMORY, "vkMapMemory", live);
      made.mapped = static_cast<std::byte*>(mapped);
      made.host_cached = (context_.memory_flags(allocate.memoryTypeIndex) & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    }
  } catch (...) {
    vkDestroyBuffer(context_.device(), made.handle, nullptr);
    vkFreeMemory(context_.device(), made.memory, nullptr);
    throw;
  }
  if (labels_available())
    name_object(context_, VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(made.handle),
                fmt::format("heddle, {} bytes", bytes));
  live_bytes_ += bytes;
  return made;
}

void Memory::destroy(const Buffer& buffer) {
  vkDestroyBuffer(context_.device(), buffer.handle, nullptr);
  vkFreeMemory(context_.device(), buffer.memory, nullptr);  // unmaps as well
  if (!buffer.adopted) live_bytes_ -= buffer.bytes;
}

BufferId Memory::add(const Buffer& buffer) {
  const BufferId id{next_++};
  buffers_.emplace(id, buffer);
  return id;
}

const Buffer* Memory::find(BufferId id) const {
  const auto found = buffers_.find(id);
  return found == buffers_.end() ? nullptr : &found->second;
}

const Buffer& Memory::get(BufferId id, uint64_t offset, uint64_t bytes, const char* place) const {
  const Buffer* buffer = find(id);
  check_access(place, buffer ? &buffer->bytes : nullptr, offset, bytes);
  return *buffer;
}

Buffer Memory::take(BufferId id) {
  const Buffer* found = find(id);
  if (!found) throw DeviceError(fmt::format("[free] buffer handle {} is not alive", static_cast<uint64_t>(id)));
  const Buffer buffer = *found;
  buffers_.erase(id);
  return buffer;
}

}  // namespace heddle::vulkan
