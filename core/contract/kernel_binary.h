// KernelBinary: one kernel as a device loads it, made by a compiler (core/contract/kernel_compiler.h).
//
// Purpose: what stands between a compiler and a device, so that a program can load kernels without holding a compiler,
// and an image can be deployed with them. Invariants: the entry point is "main" in SPIR-V and "heddle_kernel" in all
// others; the code expects what the signature says. Nobody can check machine code: like a shared library, a binary is
// loaded from where it is trusted. Thread safety: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/contract/kernel_source.h"

namespace heddle {

// What launches of a kernel must fit.
struct KernelSignature {
  std::string name;
  std::vector<BufferParam> buffers;
  size_t constants = 0;
  std::array<uint32_t, 3> group{1, 1, 1};
  bool operator==(const KernelSignature&) const = default;
};
KernelSignature signature_of(const KernelSource& source);

// How SPIR-V sees the memory of a buffer, by binding of set 0: the buffers' own first and in order. With texel loads
// (Caps::texel_loads) a buffer that is only read is a texel buffer of one element a texel; a kernel that loads 16 bytes
// at a time has a further one of uvec4 texels.
struct BufferSlot {
  enum class Kind : uint8_t { storage, texels, quads };
  uint64_t buffer = 0;  // in the signature's buffers
  Kind kind = Kind::storage;
  bool image = false;  // texels, quads: a storage texel buffer
};

struct KernelBinary {
  enum class Kind : uint8_t {
    none,            // no code: a signature only
    spirv,           // Vulkan
    opencl_c,        // OpenCL: text, which the driver compiles
    opencl_program,  // OpenCL: a program of this driver, as clGetProgramInfo gives it
    cuda             // PTX or a cubin
  };
  KernelSignature signature;
  Kind kind = Kind::none;
  std::vector<uint8_t> bytes;
  std::vector<BufferSlot> slots;  // SPIR-V
  bool subgroups = false;         // SPIR-V that exchanges values between the lanes of a subgroup
  uint32_t dynamic_shared = 0;    // CUDA: bytes of shared memory that each launch gives
  std::string text;               // what was compiled, for errors of this process; not part of an image

  uint64_t hash() const;
};

// What is wrong with a binary of whatever origin, as far as can be seen without running it; "" when nothing is.
std::string binary_fault(const KernelBinary& binary);

}  // namespace heddle
