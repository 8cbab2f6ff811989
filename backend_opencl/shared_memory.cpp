// Buffers of OpenClDevice that are memory of the host's, where the driver computes in it.
#include <array>
#include <utility>

#include "heddle/backend_opencl/opencl_device.h"
#include "heddle/core/base/system/machine.h"

namespace heddle::opencl {
namespace {

// Kernels store whole cache lines past the caches (STREAM of shaders/prelude.cl), and read single elements.
constexpr uint64_t line = 64, word = 4;

// A buffer, and where the host sees it.
struct Seen {
  cl_mem buffer = nullptr;
  volatile uint32_t* memory = nullptr;
  ~Seen() {
    if (buffer != nullptr) cl().ReleaseMemObject(buffer);
  }
};

// Whether what either side writes is there for the other without being told of it.
bool is_shared(cl_command_queue queue, const Seen& seen) {
  constexpr uint32_t of_device = 0x5eed0001, of_host = 0x5eed0002;
  uint32_t found = 0;
  if (seen.memory == nullptr ||
      cl().EnqueueFillBuffer(queue, seen.buffer, &of_device, word, 0, word, 0, nullptr, nullptr) != CL_SUCCESS ||
      cl().Finish(queue) != CL_SUCCESS || *seen.memory != of_device)
    return false;
  *seen.memory = of_host;
  return cl().EnqueueReadBuffer(queue, seen.buffer, CL_TRUE, 0, word, &found, 0, nullptr, nullptr) == CL_SUCCESS &&
         found == of_host;
}

// Where a buffer lies; the driver has nothing mapped afterwards. Null: it does not say.
void* address_of(cl_command_queue queue, cl_mem buffer, uint64_t bytes) {
  cl_int status = CL_SUCCESS;
  void* const address =
      cl().EnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, bytes, 0, nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return nullptr;
  const bool unmapped = cl().EnqueueUnmapMemObject(queue, buffer, address, 0, nullptr, nullptr) == CL_SUCCESS;
  return unmapped && cl().Finish(queue) == CL_SUCCESS ? address : nullptr;
}

}  // namespace

// The API leaves it open whether a driver copies; a driver on the host's own processor is tried: with memory of the
// host's at an address that promises nothing, and with memory of its own.
bool OpenClDevice::shares_memory() {
  check_alive();
  if (shares_memory_) return *shares_memory_;
  shares_memory_ = false;
  if (caps_.device_class != DeviceClass::cpu || !caps_.unified_memory) return false;
  alignas(line) std::array<uint32_t, 2 * line / word> memory{};
  uint32_t* const ours = memory.data() + 1;
  cl_int status[2] = {CL_SUCCESS, CL_SUCCESS};
  Seen adopted, own;
  adopted.buffer = cl().CreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, line, ours, &status[0]);
  adopted.memory = ours;
  own.buffer = cl().CreateBuffer(context_, CL_MEM_READ_WRITE, line, nullptr, &status[1]);
  if (status[0] != CL_SUCCESS || status[1] != CL_SUCCESS) return false;
  own.memory = static_cast<uint32_t*>(address_of(queue_, own.buffer, line));
  shares_memory_ = is_shared(queue_, adopted) && is_shared(queue_, own);
  return *shares_memory_;
}

void* OpenClDevice::host_address(BufferId id) {
  const Buffer& of = buffer(id, "host_address");
  if (!shares_memory()) return nullptr;
  join_uploads();
  return address_of(queue_, of.memory, of.bytes);
}

// Kernels walk through more pages of 4 KiB than a processor keeps translations of, a transposition one for each row,
// and on a virtual machine each miss is a walk through two tables. The queue is one of its own: no work in flight is
// waited for.
void OpenClDevice::ask_for_large_pages(cl_mem memory, uint64_t bytes) {
  constexpr uint64_t least = 4 << 20;  // fewer have no page of 2 MiB in them for sure
  if (bytes < least || !shares_memory()) return;
  cl_int status = CL_SUCCESS;
  cl_command_queue queue = cl().CreateCommandQueue(context_, device_, 0, &status);
  if (status != CL_SUCCESS) return;
  if (void* const address = address_of(queue, memory, bytes)) os::prefer_large_pages(address, bytes);
  cl().ReleaseCommandQueue(queue);
}

uint64_t OpenClDevice::adopted_unit(HostUse use) const { return use == HostUse::read ? word : line; }

BufferId OpenClDevice::adopt(void* memory, uint64_t bytes, HostUse use) {
  if (bytes == 0 || bytes > caps_.max_allocation_bytes || !shares_memory()) return BufferId::none;
  const cl_mem_flags access = use == HostUse::read ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE;
  cl_int status = CL_SUCCESS;
  cl_mem made = cl().CreateBuffer(context_, access | CL_MEM_USE_HOST_PTR, bytes, memory, &status);
  if (status != CL_SUCCESS) return BufferId::none;
  buffers_[++next_id_] = {made, bytes};
  return BufferId{next_id_};
}

}  // namespace heddle::opencl
