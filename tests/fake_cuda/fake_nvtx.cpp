// A tool that listens to NVTX and writes what it hears: "+name" for a push, "-" for a pop. Loaded by
// NVTX_INJECTION64_PATH, as Nsight is.
#include <nvtx3/nvToolsExt.h>

#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string heard;

int push(const char* name) {
  const std::lock_guard guard(mutex);
  heard += std::string("+") + name + "\n";
  return 0;
}

int pop() {
  const std::lock_guard guard(mutex);
  heard += "-\n";
  return 0;
}

}  // namespace

extern "C" {

// Called once, by the first NVTX function of the process: puts this tool's functions in the place of nothing.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) ||
      size <= NVTX_CBID_CORE_RangePop)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

__attribute__((visibility("default"))) const char* fake_nvtx_heard() {
  static std::string copy;
  const std::lock_guard guard(mutex);
  return (copy = heard).c_str();
}

}  // extern "C"
