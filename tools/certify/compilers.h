// Vendors' compilers as programs of this machine: a kernel for an architecture -> what it needs, and its code.
//
// Purpose: certificates and the model read the same few facts of each. Invariants: no device is asked. Errors: absent()
// says what is missing; compile() throws CompileError with the compiler's words, DeviceError where it died. Thread
// safety: none.
#pragma once

#include <memory>
#include <string>

#include "heddle/core/contract/kernel_source.h"
#include "tools/certify/gpu_families.h"
#include "tools/certify/listing.h"

namespace heddle::tools::certify {

struct Compiled {
  int registers = 0;        // of a lane; Intel: of a thread
  int64_t spill_bytes = 0;  // of a lane; Intel: of a thread
  int64_t shared_bytes = 0;
  uint32_t lanes = 32;   // of a subgroup
  double occupancy = 0;  // subgroups that a compute unit holds / the most that one does
  Listing code;          // empty where no disassembler is installed
};

inline uint32_t group_lanes(const KernelSource& source) { return source.group[0] * source.group[1] * source.group[2]; }

class VendorCompiler {
 public:
  virtual ~VendorCompiler() = default;
  // "NVRTC 12.9"; after absent() has said nothing.
  virtual std::string version() = 0;
  // Why it cannot be used, and what would help; empty when it can.
  virtual std::string absent() = 0;
  // What is missing but can be done without; empty: nothing.
  virtual std::string incomplete() { return {}; }
  virtual Compiled compile(const KernelSource& source, const GpuFamily& family) = 0;
};

std::unique_ptr<VendorCompiler> vendor_compiler(Vendor vendor);

std::unique_ptr<VendorCompiler> nvidia_compiler();
std::unique_ptr<VendorCompiler> amd_compiler();
std::unique_ptr<VendorCompiler> intel_compiler();

}  // namespace heddle::tools::certify
