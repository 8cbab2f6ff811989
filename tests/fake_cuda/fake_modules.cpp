// Modules of PTX, and launches of their kernels on the executor.
#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/fake_cuda/fake_driver.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/module.h"

using namespace heddle::fake_cuda;

namespace {

// Shared with the launches that are still queued: a kernel may be unloaded while its work is in flight.
struct Module {
  ~Module();
  std::shared_ptr<const heddle::ptx::Module> code;
  std::vector<std::byte> globals;
  heddle::ptx::Program kernel;
  unsigned dynamic_shared = 0;  // bytes it has opted in to
};

Module::~Module() { state().reachable.remove(globals.data()); }

// What handles of modules and functions point to.
using ModuleHandle = std::shared_ptr<Module>;
template <class Handle>
ModuleHandle& module_of(Handle handle) {
  return *reinterpret_cast<ModuleHandle*>(handle);
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER("cuModuleLoadData");
  try {
    auto made = std::make_shared<Module>();
    made->code = std::make_shared<heddle::ptx::Module>(heddle::ptx::parse(static_cast<const char*>(image)));
    made->globals.resize(made->code->global_bytes + 1);
    for (const heddle::ptx::Variable* v : made->code->globals)
      std::copy(v->initial.begin(), v->initial.end(), made->globals.begin() + static_cast<ptrdiff_t>(v->offset));
    state().reachable.add(made->globals.data(), made->code->global_bytes);
    *module = reinterpret_cast<CUmodule>(new ModuleHandle(std::move(made)));
  } catch (const std::exception& error) {
    return reported(error);
  }
  ++state().live["module"];
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule handle) {
  ENTER("cuModuleUnload");
  delete &module_of(handle);
  --state().live["module"];
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  ENTER("cuModuleGetFunction");
  const ModuleHandle& module = module_of(handle);
  *function = reinterpret_cast<CUfunction>(handle);
  if (!module->code->functions.contains(name)) return CUDA_ERROR_NOT_FOUND;
  try {
    module->kernel = heddle::ptx::decode(module->code, name, module->globals.data());
  } catch (const std::exception& error) {
    return reported(error);
  }
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction function) {
  ENTER("cuFuncGetAttribute");
  const uint32_t most = module_of(function)->kernel.max_lanes;
  *value = most ? static_cast<int>(most) : 1024;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value) {
  ENTER("cuFuncSetAttribute");
  if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > most_shared) return CUDA_ERROR_INVALID_VALUE;
  module_of(function)->dynamic_shared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void** arguments, void** extra) {
  ENTER("cuLaunchKernel");
  const ModuleHandle module = module_of(function);
  if (shared > module->dynamic_shared || extra || !gx || !gy || !gz) return CUDA_ERROR_INVALID_VALUE;
  // Arguments are read at the launch, as the API does.
  std::vector<std::byte> parameters(module->kernel.parameter_bytes);
  for (size_t i = 0; i < module->kernel.parameters.size(); ++i) {
    const heddle::ptx::Variable& p = *module->kernel.parameters[i];
    std::memcpy(parameters.data() + p.offset, arguments[i], p.bytes);
  }
  return enqueue(stream, [=] {
    try {
      launch(module->kernel, {{gx, gy, gz}, {bx, by, bz}, shared}, parameters.data(), state().reachable);
    } catch (const heddle::ptx::Fault& fault) {
      return reported(fault);
    }
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
