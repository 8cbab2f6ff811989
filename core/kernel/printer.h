// Printer: KernelSource -> source text of one target (GLSL, OpenCL C or CUDA C++).
//
// Purpose: a backend's compile() calls print() and hands the text to its compiler. The text is: target prelude (shaders/
// prelude.glsl, prelude.cl, prelude.cu), typed LOAD_/STORE_ macros of the buffers, defines, helpers, the kernel's signature and
// its body. Invariants: the output is a pure function of (source, target, options). Thread safety: pure.
#pragma once

#include <string>

#include "core/device/device.h"
#include "core/kernel/kernel_source.h"

namespace heddle {

struct PrintOptions {
  bool f16_arithmetic = false;  // Caps::f16_arithmetic
};

// The kernel's entry point is always called "heddle_kernel" ("main" in GLSL).
// Interface the printed text has, which a backend relies on:
//   GLSL:     set 0, binding i = buffers[i] (storage buffer); push constants: constants[i] at byte 4*i;
//             local_size from source.group; GLSL 4.50, SPIR-V 1.3 / Vulkan 1.1 environment or newer.
//   OpenCL C: arguments in order: for each buffer a `__global T*` and a `ulong` byte offset; then each constant (4 bytes each).
//   CUDA:     extern "C" __global__ arguments in order: for each buffer a pointer to its first byte; then each constant (4 bytes).
std::string print(const KernelSource& source, Target target, const PrintOptions& options = {});

}  // namespace heddle
