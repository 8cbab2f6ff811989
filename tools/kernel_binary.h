// What the compilers of the backends make of a kernel, without a device.
//
// The one place above the device layer that calls into backends, by their own driver-free headers. Errors: CompileError
// with the compiler's log; ValueError when the backend is not part of this build; DeviceUnavailable without NVRTC.
// Thread safety: as those compilers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/dialect/print_options.h"

namespace heddle::tools {

// What a CUDA device of that capability needs for a kernel: of a lane, but shared_bytes of a group; the last three in
// bytes.
struct Resources {
  int registers = 0, shared_bytes = 0, stack_bytes = 0, spill_stores = 0, spill_loads = 0;
  std::string code;  // the cubin
};
Resources resources_of(const KernelSource& source, int sm, const PrintOptions& options = {});

std::string ptx_of(const KernelSource& source, int sm);
std::vector<uint32_t> spirv_of(const KernelSource& source, const PrintOptions& options = {});

// Why there is no such compiler here; empty where there is. With its version otherwise.
struct CompilerState {
  std::string absent, version;
};
CompilerState cuda_compiler_state();
CompilerState glsl_compiler_state();

}  // namespace heddle::tools
