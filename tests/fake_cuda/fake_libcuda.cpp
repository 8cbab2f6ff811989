#include "tests/fake_cuda/fake_libcuda.h"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#undef cuEventElapsedTime
#undef cuGraphInstantiate

namespace {

using Work = std::function<CUresult()>;

struct Event {
  double seconds = 0;
  bool pending = false;
};
constexpr int most_shared = 232448;  // bytes a kernel may opt in to, as on sm_90
struct Module {
  std::string code;
  unsigned dynamic_shared = 0;  // bytes it has opted in to
};
struct Graph {
  std::vector<Work> work;
};

struct State {
  std::map<std::string, int> calls, live, failures;
  std::map<uintptr_t, size_t> memory;  // device allocations
  std::deque<Work> queue;              // of the one stream
  std::vector<Work>* capture = nullptr;
  std::vector<Work> captured;
  CUresult sticky = CUDA_SUCCESS;
};

State& state() {
  static auto* s = new State();
  return *s;
}

thread_local bool context_is_current = false;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What every call does first: counts, fails on demand, and reports a sticky error or a missing context.
CUresult enter(const char* symbol, bool needs_context = true) {
  State& s = state();
  ++s.calls[symbol];
  if (auto found = s.failures.find(symbol); found != s.failures.end()) {
    int code = found->second;
    s.failures.erase(found);
    return static_cast<CUresult>(code);
  }
  if (needs_context && !context_is_current) return CUDA_ERROR_INVALID_CONTEXT;
  return s.sticky;
}

#define ENTER(symbol) \
  if (CUresult refused = enter(symbol); refused != CUDA_SUCCESS) return refused

bool valid(CUdeviceptr address, size_t bytes) {
  State& s = state();
  auto after = s.memory.upper_bound(static_cast<uintptr_t>(address));
  if (after == s.memory.begin()) return false;
  auto block = std::prev(after);
  return address + bytes <= block->first + block->second;
}

CUresult enqueue(Work work) {
  State& s = state();
  if (s.capture) {
    s.capture->push_back(std::move(work));
  } else {
    s.queue.push_back(std::move(work));
  }
  return CUDA_SUCCESS;
}

CUresult run_one() {
  State& s = state();
  Work work = std::move(s.queue.front());
  s.queue.pop_front();
  CUresult result = work();
  if (result != CUDA_SUCCESS) s.sticky = result;
  return result;
}

CUresult drain() {
  while (!state().queue.empty()) {
    if (CUresult result = run_one(); result != CUDA_SUCCESS) return result;
  }
  return state().sticky;
}

char* host(CUdeviceptr address) { return reinterpret_cast<char*>(static_cast<uintptr_t>(address)); }

// out[i] = 3 a[i] + b[i] + c
CUresult mix(CUdeviceptr a, CUdeviceptr b, CUdeviceptr out, uint32_t n, int32_t c, uint32_t lanes) {
  n = std::min(n, lanes);
  for (CUdeviceptr p : {a, b, out}) {
    if (!valid(p, size_t{n} * 4)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (uint32_t i = 0; i < n; ++i) {
    reinterpret_cast<int32_t*>(host(out))[i] = 3 * reinterpret_cast<int32_t*>(host(a))[i] + reinterpret_cast<int32_t*>(host(b))[i] + c;
  }
  return CUDA_SUCCESS;
}

template <class T>
T argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

}  // namespace

extern "C" {

void fake_cuda_fail_next(const char* symbol, int code) { state().failures[symbol] = code; }
int fake_cuda_live(const char* kind) { return state().live[kind]; }
int fake_cuda_calls(const char* symbol) { return state().calls[symbol]; }
void fake_cuda_revive() {
  state().sticky = CUDA_SUCCESS;
  state().queue.clear();
}

CUresult cuInit(unsigned) { return enter("cuInit", false); }
// NVRTC looks for the driver's private tables in any libcuda that is loaded; there are none.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuDriverGetVersion(int* version) { *version = 13000; return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult, const char** text) { *text = "a fake error"; return CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int* count) { *count = 1; return enter("cuDeviceGetCount", false); }
CUresult cuDeviceGet(CUdevice* device, int index) { *device = index; return enter("cuDeviceGet", false); }
CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { *bytes = size_t{1} << 30; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute what, CUdevice) {
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 99; break;  // newer than any NVRTC: kernels come as PTX
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = most_shared; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 0x7fffffff; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(&state());
  ++state().live["context"];
  return enter("cuDevicePrimaryCtxRetain", false);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { --state().live["context"]; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) {
  context_is_current = context != nullptr;
  return enter("cuCtxSetCurrent", false);
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  ENTER("cuMemAlloc");
  if (state().capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto* memory = new char[bytes];
  state().memory[reinterpret_cast<uintptr_t>(memory)] = bytes;
  *address = reinterpret_cast<uintptr_t>(memory);
  ++state().live["memory"];
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER("cuMemFree");
  if (!state().memory.erase(static_cast<uintptr_t>(address))) return CUDA_ERROR_INVALID_VALUE;
  delete[] host(address);
  --state().live["memory"];
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  *memory = new char[bytes];
  ++state().live["host"];
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* memory) {
  ENTER("cuMemFreeHost");
  delete[] static_cast<char*>(memory);
  --state().live["host"];
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, CUstream) {
  ENTER("cuMemcpyHtoDAsync");
  return enqueue([=] {
    if (!valid(target, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(host(target), source, bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, CUstream) {
  ENTER("cuMemcpyDtoHAsync");
  return enqueue([=] {
    if (!valid(source, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(target, host(source), bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream) {
  ENTER("cuMemcpyDtoDAsync");
  return enqueue([=] {
    if (!valid(target, bytes) || !valid(source, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(host(target), host(source), bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned pattern, size_t words, CUstream) {
  ENTER("cuMemsetD32Async");
  return enqueue([=] {
    if (!valid(target, words * 4)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < words; ++i) std::memcpy(host(target) + 4 * i, &pattern, 4);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  ENTER("cuStreamCreate");
  *stream = reinterpret_cast<CUstream>(&state());
  ++state().live["stream"];
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream) { --state().live["stream"]; return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) {
  ENTER("cuStreamSynchronize");
  return state().capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : drain();
}
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
  ENTER("cuStreamBeginCapture");
  state().captured.clear();
  state().capture = &state().captured;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  state().capture = nullptr;
  *graph = nullptr;
  ENTER("cuStreamEndCapture");
  *graph = reinterpret_cast<CUgraph>(new Graph{state().captured});
  ++state().live["graph"];
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  ENTER("cuGraphInstantiate");
  *exec = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  ++state().live["exec"];
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream) {
  ENTER("cuGraphLaunch");
  for (const Work& work : reinterpret_cast<Graph*>(exec)->work) enqueue(work);
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<Graph*>(graph);
  --state().live["graph"];
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete reinterpret_cast<Graph*>(exec);
  --state().live["exec"];
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  ENTER("cuEventCreate");
  *event = reinterpret_cast<CUevent>(new Event());
  ++state().live["event"];
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  delete reinterpret_cast<Event*>(event);
  --state().live["event"];
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent handle, CUstream) {
  ENTER("cuEventRecord");
  auto* event = reinterpret_cast<Event*>(handle);
  event->pending = true;
  return enqueue([event] {
    event->seconds = now();
    event->pending = false;
    return CUDA_SUCCESS;
  });
}
CUresult cuEventQuery(CUevent handle) {
  ENTER("cuEventQuery");
  // The device works while the host asks: one piece of work per question.
  if (!state().queue.empty()) {
    if (CUresult result = run_one(); result != CUDA_SUCCESS) return result;
  }
  return reinterpret_cast<Event*>(handle)->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent handle) {
  ENTER("cuEventSynchronize");
  while (reinterpret_cast<Event*>(handle)->pending && !state().queue.empty()) {
    if (CUresult result = run_one(); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  ENTER("cuEventElapsedTime");
  auto *a = reinterpret_cast<Event*>(from), *b = reinterpret_cast<Event*>(to);
  if (a->pending || b->pending) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((b->seconds - a->seconds) * 1e3);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER("cuModuleLoadData");
  std::string code(static_cast<const char*>(image));
  if (code.find(".entry heddle_kernel") == std::string::npos) return CUDA_ERROR_INVALID_IMAGE;
  *module = reinterpret_cast<CUmodule>(new Module{code});
  ++state().live["module"];
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<Module*>(module);
  --state().live["module"];
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER("cuModuleGetFunction");
  *function = reinterpret_cast<CUfunction>(module);
  return std::string(name) == "heddle_kernel" ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  ENTER("cuFuncGetAttribute");
  *value = 512;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value) {
  ENTER("cuFuncSetAttribute");
  if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > most_shared) return CUDA_ERROR_INVALID_VALUE;
  reinterpret_cast<Module*>(function)->dynamic_shared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        CUstream, void** arguments, void** extra) {
  ENTER("cuLaunchKernel");
  if (shared > reinterpret_cast<Module*>(function)->dynamic_shared || extra || !gx || !gy || !gz) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<Module*>(function)->code.find("fake_mix") == std::string::npos) return CUDA_ERROR_NOT_SUPPORTED;
  // Arguments are read at the launch, as the API does.
  auto a = argument<CUdeviceptr>(arguments, 0), b = argument<CUdeviceptr>(arguments, 1), out = argument<CUdeviceptr>(arguments, 2);
  auto n = argument<uint32_t>(arguments, 3);
  auto c = argument<int32_t>(arguments, 4);
  uint32_t lanes = gx * gy * gz * bx * by * bz;
  return enqueue([=] { return mix(a, b, out, n, c, lanes); });
}

}  // extern "C"
