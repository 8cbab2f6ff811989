#include "tools/kernel_binary.h"

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/printer.h"

#ifdef HEDDLE_HAS_CUDA
#include "heddle/backend_cuda/nvrtc.h"
#endif
#ifdef HEDDLE_HAS_VULKAN
#include "heddle/backend_vulkan/glsl_compiler.h"
#endif

namespace heddle::tools {

#ifdef HEDDLE_HAS_CUDA
std::string ptx_of(const KernelSource& source, int sm) {
  return cuda::compile_ptx(print(source, Target::cuda), source.name, sm);
}
Resources resources_of(const KernelSource& source, int sm, const PrintOptions& options) {
  cuda::KernelResources r = cuda::kernel_resources(print(source, Target::cuda, options), source.name, sm);
  const uint64_t shared = shared_bytes(source);  // dynamic arrays are not the assembler's
  return {r.registers, static_cast<int>(shared), r.stack_bytes, r.spill_stores, r.spill_loads, std::move(r.code)};
}
CompilerState cuda_compiler_state() {
  CompilerState state;
  if (cuda::have_nvrtc(&state.absent)) state.version = "NVRTC " + cuda::nvrtc_version();
  return state;
}
#else
CompilerState cuda_compiler_state() { return {"the cuda backend is not in this build", ""}; }
Resources resources_of(const KernelSource&, int, const PrintOptions&) {
  throw ValueError("[kernel] resources need the cuda backend, which is not in this build");
}
std::string ptx_of(const KernelSource&, int) {
  throw ValueError("[kernel] PTX needs the cuda backend, which is not in this build");
}
#endif

#ifdef HEDDLE_HAS_VULKAN
std::vector<uint32_t> spirv_of(const KernelSource& source, const PrintOptions& options) {
  return compile_glsl(print(source, Target::glsl, options), source.name);
}
CompilerState glsl_compiler_state() { return {"", "glslang"}; }
#else
CompilerState glsl_compiler_state() { return {"the vulkan backend is not in this build", ""}; }
std::vector<uint32_t> spirv_of(const KernelSource&, const PrintOptions&) {
  throw ValueError("[kernel] SPIR-V needs the vulkan backend, which is not in this build");
}
#endif

}  // namespace heddle::tools
