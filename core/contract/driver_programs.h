// DriverPrograms, ConstantMemory: what a Device is besides where its driver can do more, so that an image starts
// without a compiler's work and weights need no copy (runtime/).
//
// Found by dynamic_cast: a device of which these are no bases cannot. Thread safety: as for the device.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/contract/handles.h"

namespace heddle {

class DriverPrograms {
 public:
  // What the driver made of a kernel, KernelBinary::Kind::opencl_program for load_all() on the same driver, with what
  // it has compiled since for the launches that ran. Empty: it does not say.
  virtual std::vector<uint8_t> program_of(KernelId kernel) = 0;

 protected:
  ~DriverPrograms() = default;
};

class ConstantMemory {
 public:
  // A buffer over memory of the host that kernels only read; it stays the caller's and must outlive everything that
  // uses the buffer, free() leaves it alone. BufferId::none: the device would copy it.
  virtual BufferId adopt_constant(const void* memory, uint64_t bytes) = 0;

 protected:
  ~ConstantMemory() = default;
};

}  // namespace heddle
