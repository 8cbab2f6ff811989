// HostMemory: what a Device is besides where its buffers are the host's own memory, so that arrays of others need no
// copy (core/graph/dlpack.h).
//
// Found by dynamic_cast: a device of which this is no base keeps its memory to itself. Thread safety: as for the
// device.
#pragma once

#include <cstdint>

#include "heddle/core/contract/handles.h"

namespace heddle {

class HostMemory {
 public:
  // Where the buffer's first byte lies, for as long as it is alive; what was submitted must have finished before the
  // host looks. Null: not at an address of the host.
  virtual void* host_address(BufferId buffer) = 0;
  // A buffer over memory of the host, which stays the caller's and must outlive everything that uses the buffer;
  // free() leaves it alone. BufferId::none: not with such an address or length.
  virtual BufferId adopt(void* memory, uint64_t bytes) = 0;

 protected:
  ~HostMemory() = default;
};

}  // namespace heddle
