// HostMemory: what a Device is besides where its buffers may be the host's own memory, so that arrays of others need no
// copy (core/graph/dlpack.h, runtime/shared_arrays.h).
//
// Found by dynamic_cast: a device of which this is no base keeps its memory to itself, as does one that says so. Thread
// safety: as for the device.
#pragma once

#include <cstdint>

#include "heddle/core/contract/handles.h"

namespace heddle {

// What commands do with memory that is adopted.
enum class HostUse : uint8_t { read, write };

class HostMemory {
 public:
  // Whether kernels read and write where the host does; it may try. Else the other calls give nothing.
  virtual bool shares_memory() = 0;
  // Where the buffer's first byte lies, for as long as it is alive. Waits for what was enqueued, whose results are then
  // there; later submissions must have finished before the host looks again. Null: not at an address of the host.
  virtual void* host_address(BufferId buffer) = 0;
  // Addresses and lengths that adopt() takes are multiples of it, a power of two.
  virtual uint64_t adopted_unit(HostUse use) const = 0;
  // A buffer over memory of the host, which stays the caller's and must outlive everything that uses the buffer;
  // free() leaves it alone. HostUse::read: no command writes to it. BufferId::none: not with this memory.
  virtual BufferId adopt(void* memory, uint64_t bytes, HostUse use) = 0;

 protected:
  ~HostMemory() = default;
};

}  // namespace heddle
