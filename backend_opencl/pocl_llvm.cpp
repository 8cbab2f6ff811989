#include "heddle/backend_opencl/pocl_llvm.h"

#include <dlfcn.h>

#include <mutex>

namespace heddle::opencl {
namespace {

void stop_sinking() {
  void* const llvm = dlopen("libLLVM.so.18.1", RTLD_NOW | RTLD_NOLOAD);  // only if the driver brought it
  if (!llvm) return;
  using Parse = void (*)(int count, const char* const* arguments, const char* overview);  // llvm-c/Support.h
  const auto parse = reinterpret_cast<Parse>(dlsym(llvm, "LLVMParseCommandLineOptions"));
  const char* const arguments[] = {"heddle", "-instcombine-code-sinking=false"};
  if (parse) parse(2, arguments, "");
  dlclose(llvm);
}

}  // namespace

void keep_instcombine_alive() {
  static std::once_flag once;  // LLVM refuses an option that is given twice
  std::call_once(once, stop_sinking);
}

}  // namespace heddle::opencl
