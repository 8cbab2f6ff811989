// A libcuda in host memory: one entry point after the other, a few lines each, as the library that it stands for is
// one.
#include "tests/fake_cuda/fake_libcuda.h"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/ptx/launch.h"
#include "tests/ptx/module.h"

#undef cuEventElapsedTime
#undef cuGraphInstantiate

namespace {

using Work = std::function<CUresult()>;

struct Event {
  double seconds = 0;
  int recorded = 0, finished = 0;  // how often
  int node = -1;                   // recorded in a capture: the node of the graph that it follows
  bool pending() const { return finished < recorded; }
};
// A piece of work that starts when what it waits for is over.
struct Item {
  Work run;
  std::function<bool()> ready;  // empty: at once
};
constexpr int questions = 64;        // by cuEventQuery, for a piece of work
constexpr int most_shared = 232448;  // bytes a kernel may opt in to, as on sm_90
// What the executor of PTX has against a kernel: a number that cuda.h
// leaves free within its enumeration, as no driver looks so closely. The device lives on.
constexpr auto ptx_fault = static_cast<CUresult>(1001);
// Shared with the launches that are still queued: a kernel may be unloaded while its work is in flight.
struct Module {
  ~Module();
  std::shared_ptr<const heddle::ptx::Module> code;
  std::vector<std::byte> globals;
  heddle::ptx::Program kernel;
  unsigned dynamic_shared = 0;  // bytes it has opted in to
};
struct Node {
  Work run;
  std::set<int> after;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Stream {
  std::deque<Item> queue;
  bool capturing = false;
  std::set<int> last;  // capturing: what the next node comes after
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, int> calls, live, failures;
  std::map<uintptr_t, size_t> memory;   // device allocations
  std::map<uintptr_t, size_t> host;     // page-locked ones
  heddle::ptx::GlobalMemory reachable;  // both, and variables of modules: what kernels may touch
  std::string fault;                    // what the executor reported last
  std::vector<Stream*> streams;         // alive, oldest first
  Graph* capture = nullptr;
  CUresult sticky = CUDA_SUCCESS;
  int asked = 0;                       // questions so far
  bool working = false;                // a thread runs a piece of work, without the lock
  std::condition_variable_any rested;  // it does no more
};

State& state() {
  static auto* s = new State();
  return *s;
}

Module::~Module() { state().reachable.remove(globals.data()); }

using Held = std::unique_lock<std::recursive_mutex>;

// What handles of modules and functions point to.
using ModuleHandle = std::shared_ptr<Module>;
template <class Handle>
ModuleHandle& module_of(Handle handle) {
  return *reinterpret_cast<ModuleHandle*>(handle);
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

#define ENTER(symbol)       \
  Held held(state().mutex); \
  if (CUresult refused = enter(symbol); refused != CUDA_SUCCESS) return refused

bool inside(const std::map<uintptr_t, size_t>& blocks, CUdeviceptr address, size_t bytes) {
  const Held held(state().mutex);
  auto after = blocks.upper_bound(static_cast<uintptr_t>(address));
  if (after == blocks.begin()) return false;
  auto block = std::prev(after);
  return address + bytes <= block->first + block->second;
}
bool valid(CUdeviceptr address, size_t bytes) { return inside(state().memory, address, bytes); }

Stream& stream_of(CUstream handle) { return *reinterpret_cast<Stream*>(handle); }

CUresult enqueue(CUstream handle, Work work) {
  Stream& stream = stream_of(handle);
  if (stream.capturing) {
    state().capture->nodes.push_back({std::move(work), stream.last});
    stream.last = {static_cast<int>(state().capture->nodes.size()) - 1};
  } else {
    stream.queue.push_back({std::move(work), {}});
  }
  return CUDA_SUCCESS;
}

// The next piece of work of the youngest stream that can go on: an order that nobody who forgot a dependency expects.
// Other threads may call the driver while it runs. False when none can.
bool run_one(Held& held, CUresult* result) {
  State& s = state();
  for (auto stream = s.streams.rbegin(); stream != s.streams.rend(); ++stream) {
    std::deque<Item>& queue = (*stream)->queue;
    if (queue.empty() || (queue.front().ready && !queue.front().ready())) continue;
    const Work work = std::move(queue.front().run);
    queue.pop_front();
    s.working = true;
    held.unlock();
    *result = work();
    held.lock();
    s.working = false;
    s.rested.notify_all();
    if (*result != CUDA_SUCCESS && *result != ptx_fault) s.sticky = *result;
    return true;
  }
  return false;
}

void wait_for_rest(Held& held) {
  state().rested.wait(held, [] { return !state().working; });
}

template <class Busy>
CUresult run_while(Held& held, const Busy& busy) {
  for (;;) {
    wait_for_rest(held);
    if (!busy()) break;
    CUresult result = CUDA_SUCCESS;
    if (!run_one(held, &result)) return CUDA_ERROR_UNKNOWN;  // streams wait for each other
    if (result != CUDA_SUCCESS) return result;
  }
  return state().sticky;
}

// All nodes, of those that may run always the latest.
CUresult run_graph(const std::vector<Node>& nodes) {
  std::vector<bool> done(nodes.size(), false);
  for (size_t count = 0; count < nodes.size(); ++count) {
    size_t next = nodes.size();
    for (size_t i = nodes.size(); i-- > 0 && next == nodes.size();) {
      const auto finished = [&](int before) { return done[static_cast<size_t>(before)]; };
      if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(), finished)) next = i;
    }
    if (CUresult result = nodes[next].run(); result != CUDA_SUCCESS) return result;
    done[next] = true;
  }
  return CUDA_SUCCESS;
}

char* host(CUdeviceptr address) { return reinterpret_cast<char*>(static_cast<uintptr_t>(address)); }

// Memory as a device gives it: aligned, and with nothing in it that somebody could take for a value.
constexpr std::align_val_t device_alignment{256};
constexpr int rubbish = 0xcb;
char* make_memory(size_t bytes) {
  auto* memory = static_cast<char*>(::operator new(bytes, device_alignment));
  std::memset(memory, rubbish, bytes);
  state().reachable.add(memory, bytes);
  return memory;
}
void give_back(void* memory) {
  state().reachable.remove(memory);
  ::operator delete(memory, device_alignment);
}

CUresult reported(const std::exception& error) {
  const Held held(state().mutex);
  state().fault = error.what();
  return ptx_fault;
}

}  // namespace

extern "C" {

void fake_cuda_fail_next(const char* symbol, int code) { state().failures[symbol] = code; }
int fake_cuda_live(const char* kind) { return state().live[kind]; }
int fake_cuda_calls(const char* symbol) { return state().calls[symbol]; }
void fake_cuda_revive() {
  state().sticky = CUDA_SUCCESS;
  for (Stream* stream : state().streams) stream->queue.clear();
}

CUresult cuInit(unsigned) { return enter("cuInit", false); }
// NVRTC looks for the driver's private tables in any libcuda that is loaded; there are none.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == ptx_fault                  ? "PTX_FAULT"
                                                : nullptr;
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  static thread_local std::string kept;
  const Held held(state().mutex);
  kept = error == ptx_fault ? state().fault : "a fake error";
  *text = kept.c_str();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return enter("cuDeviceGetCount", false);
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return enter("cuDeviceGet", false);
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute what, CUdevice) {
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 9;
      break;  // sm_99, which no NVRTC knows: kernels come as PTX for sm_90
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = 49152;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = most_shared;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      *value = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      *value = 0x7fffffff;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      *value = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      *value = 1024;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(&state());
  ++state().live["context"];
  return enter("cuDevicePrimaryCtxRetain", false);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  --state().live["context"];
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  context_is_current = context != nullptr;
  return enter("cuCtxSetCurrent", false);
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  ENTER("cuMemAlloc");
  if (state().capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  char* memory = make_memory(bytes);
  state().memory[reinterpret_cast<uintptr_t>(memory)] = bytes;
  *address = reinterpret_cast<uintptr_t>(memory);
  ++state().live["memory"];
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER("cuMemFree");
  wait_for_rest(held);
  if (!state().memory.erase(static_cast<uintptr_t>(address))) return CUDA_ERROR_INVALID_VALUE;
  give_back(host(address));
  --state().live["memory"];
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  *memory = make_memory(bytes);
  state().host[reinterpret_cast<uintptr_t>(*memory)] = bytes;
  ++state().live["host"];
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* memory) {
  ENTER("cuMemFreeHost");
  wait_for_rest(held);
  state().host.erase(reinterpret_cast<uintptr_t>(memory));
  give_back(memory);
  --state().live["host"];
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyHtoDAsync");
  return enqueue(stream, [=] {
    if (!valid(target, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(host(target), source, bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyDtoHAsync");
  return enqueue(stream, [=] {
    if (!valid(source, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(target, host(source), bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyDtoDAsync");
  return enqueue(stream, [=] {
    if (!valid(target, bytes) || !valid(source, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(host(target), host(source), bytes);
    return CUDA_SUCCESS;
  });
}
// Between host and device, by address.
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyAsync");
  return enqueue(stream, [=] {
    const auto known = [&](CUdeviceptr a) { return valid(a, bytes) || inside(state().host, a, bytes); };
    if (!known(target) || !known(source)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(host(target), host(source), bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned pattern, size_t words, CUstream stream) {
  ENTER("cuMemsetD32Async");
  return enqueue(stream, [=] {
    if (!valid(target, words * 4)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < words; ++i) std::memcpy(host(target) + 4 * i, &pattern, 4);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  ENTER("cuStreamCreate");
  state().streams.push_back(new Stream());
  *stream = reinterpret_cast<CUstream>(state().streams.back());
  ++state().live["stream"];
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  std::erase(state().streams, &stream_of(stream));
  delete &stream_of(stream);
  --state().live["stream"];
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  ENTER("cuStreamSynchronize");
  return state().capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                         : run_while(held, [&] { return !stream_of(stream).queue.empty(); });
}
CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  ENTER("cuStreamWaitEvent");
  Stream& stream = stream_of(handle);
  auto* event = reinterpret_cast<Event*>(event_handle);
  if (state().capture && event->node != -1) {  // the stream joins the capture
    if (!stream.capturing) stream.last.clear();
    stream.capturing = true;
    if (event->node >= 0) stream.last.insert(event->node);
    return CUDA_SUCCESS;
  }
  if (stream.capturing) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  const int wanted = event->recorded;
  stream.queue.push_back({[] { return CUDA_SUCCESS; }, [event, wanted] { return event->finished >= wanted; }});
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  ENTER("cuStreamBeginCapture");
  state().capture = new Graph();
  stream_of(stream).capturing = true;
  stream_of(stream).last.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const Graph made = *state().capture;
  delete state().capture;
  state().capture = nullptr;
  *graph = nullptr;
  // Every node must come before where the capturing stream ends.
  std::set<int> before = stream_of(handle).last;
  for (size_t i = made.nodes.size(); i-- > 0;) {
    if (before.contains(static_cast<int>(i))) before.insert(made.nodes[i].after.begin(), made.nodes[i].after.end());
  }
  for (Stream* stream : state().streams) stream->capturing = false;
  ENTER("cuStreamEndCapture");
  if (before.size() != made.nodes.size()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = reinterpret_cast<CUgraph>(new Graph(made));
  ++state().live["graph"];
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  ENTER("cuGraphInstantiate");
  *exec = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  ++state().live["exec"];
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ENTER("cuGraphLaunch");
  return enqueue(stream, [nodes = reinterpret_cast<Graph*>(exec)->nodes] { return run_graph(nodes); });
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
CUresult cuEventRecord(CUevent handle, CUstream stream) {
  ENTER("cuEventRecord");
  auto* event = reinterpret_cast<Event*>(handle);
  if (stream_of(stream).capturing) {  // an empty node stands for the place
    const CUresult result = enqueue(stream, [] { return CUDA_SUCCESS; });
    event->node = *stream_of(stream).last.begin();
    return result;
  }
  const int number = ++event->recorded;
  return enqueue(stream, [event, number] {
    const Held held_too(state().mutex);
    event->seconds = now();
    event->finished = number;
    return CUDA_SUCCESS;
  });
}
CUresult cuEventQuery(CUevent handle) {
  ENTER("cuEventQuery");
  // The device works while the host asks, if no other thread waits for it: a piece of work per so many questions, as
  // that of somebody who looks in passing must not take as long as the work.
  CUresult result = CUDA_SUCCESS;
  if (!state().working && ++state().asked % questions == 0 && run_one(held, &result) && result != CUDA_SUCCESS)
    return result;
  return reinterpret_cast<Event*>(handle)->pending() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent handle) {
  ENTER("cuEventSynchronize");
  return run_while(held, [&] { return reinterpret_cast<Event*>(handle)->pending(); });
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  ENTER("cuEventElapsedTime");
  auto *a = reinterpret_cast<Event*>(from), *b = reinterpret_cast<Event*>(to);
  if (a->pending() || b->pending()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((b->seconds - a->seconds) * 1e3);
  return CUDA_SUCCESS;
}

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
