#include "tools/kernel_binary.h"

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
Resources resources_of(const KernelSource& source, int sm) {
  const cuda::KernelResources r = cuda::kernel_resources(print(source, Target::cuda), source.name, sm);
  const uint64_t shared = shared_bytes(source);  // dynamic arrays are not the assembler's
  return {r.registers, static_cast<int>(shared), r.stack_bytes, r.spill_stores, r.spill_loads};
}
#else
Resources resources_of(const KernelSource&, int) {
  throw ValueError("[kernel] resources need the cuda backend, which is not in this build");
}
std::string ptx_of(const KernelSource&, int) {
  throw ValueError("[kernel] PTX needs the cuda backend, which is not in this build");
}
#endif

#ifdef HEDDLE_HAS_VULKAN
std::vector<uint32_t> spirv_of(const KernelSource& source) {
  return compile_glsl(print(source, Target::glsl), source.name);
}
#else
std::vector<uint32_t> spirv_of(const KernelSource&) {
  throw ValueError("[kernel] SPIR-V needs the vulkan backend, which is not in this build");
}
#endif

}  // namespace heddle::tools
