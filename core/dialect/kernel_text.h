// KernelText: a whole kernel in the language of one kind of device, as its author wrote it.
//
// Purpose: a kernel engineer runs his own GLSL, SPIR-V, OpenCL C or CUDA C++ through the harness
// (core/dialect/harness.h) as he runs a .hk body; nothing of the dialect stands around it. What the kernel must look
// like:
//   GLSL, SPIR-V  a compute shader with the entry point main; buffer i of the list is binding i of set 0, a storage
//                 buffer; the constants are one push-constant block of 32-bit members in their order; the work group's
//                 size is the shader's own, and `group` repeats it. SPIR-V is Vulkan's: OpenCL's flavour is refused.
//   OpenCL C      a __kernel function called `name` whose parameters are the buffers, then the constants. Its buffers
//                 begin at offset 0, so the harness sees writes behind their ends, not before their starts.
//   CUDA C++      an extern "C" __global__ function called `name` with the same parameters.
// Invariants: plain value. Thread safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/contract/device_info.h"
#include "heddle/core/contract/kernel_binary.h"
#include "heddle/core/contract/kernel_source.h"

namespace heddle {

struct KernelText {
  enum class Language : uint8_t { glsl, spirv, opencl_c, cuda };

  Language language = Language::glsl;
  std::string name;  // for messages; in OpenCL C and CUDA C++ also the function's, an identifier
  std::string text;  // SPIR-V: the bytes of its words
  std::vector<BufferParam> buffers;
  std::vector<ConstParam> constants;
  std::array<uint32_t, 3> group{1, 1, 1};  // lanes per group

  // What a file says by its name: .comp or .glsl, .spv, .cl, .cu; the rest is filled in by the caller. `name` is the
  // file's without folder and ending. IoError when it cannot be read, ValueError for another ending.
  static KernelText load(const std::string& path);

  // The kind of device that takes it.
  Target target() const;
};

// "OpenCL C".
const char* name_of(KernelText::Language language);

// What a device with these facts loads. ValueError when it takes another language or the name is no identifier,
// LimitError for too many buffers or constants or too large a group, CompileError with the compiler's log.
KernelBinary compile_text(const KernelText& kernel, const Caps& caps);

}  // namespace heddle
