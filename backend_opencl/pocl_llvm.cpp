#include "heddle/backend_opencl/pocl_llvm.h"

#include <mutex>

#include "heddle/core/base/system/library.h"

namespace heddle::opencl {
namespace {

void tell() {
  void* const llvm = os::loaded_library("libLLVM.so.18.1");  // only if the driver brought it
  if (!llvm) return;
  using Parse = void (*)(int count, const char* const* arguments, const char* overview);  // llvm-c/Support.h
  const auto parse = reinterpret_cast<Parse>(os::find_symbol(llvm, "LLVMParseCommandLineOptions"));
  const char* const arguments[] = {"heddle", "-instcombine-code-sinking=false", "-unswitch-threshold=0"};
  if (parse) parse(3, arguments, "");
  os::close_library(llvm);
}

}  // namespace

void restrain_llvm() {
  static std::once_flag once;  // LLVM refuses an option that is given twice
  std::call_once(once, tell);
}

}  // namespace heddle::opencl
