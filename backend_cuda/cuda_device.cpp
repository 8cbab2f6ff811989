// Errors, memory and kernels of CudaDevice; recordings and completion stand in recording.cpp.
#include "heddle/backend_cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heddle/backend_cuda/nvtx.h"
#include "heddle/core/base/error.h"

namespace heddle::cuda {
namespace {

constexpr uint64_t max_staged_bytes = 64ull << 20;    // copies of written data that wait in the stream
constexpr uint64_t direct_write_bytes = 16ull << 20;  // above this a write waits instead of being copied
constexpr size_t kept_staging = 16;

template <class Id>
uint64_t raw(Id id) {
  return static_cast<uint64_t>(id);
}

}  // namespace

CudaDevice::CudaDevice(const Found& found) : caps_(found.info.caps), id_(found.info.id), device_(found.device) {
  caps_.queues = wanted_queues(caps_.queues);
  nvtx::active();
  check(cu().DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  CUresult result = cu().CtxSetCurrent(context_);
  if (result == CUDA_SUCCESS) result = cu().StreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) {
    cu().DevicePrimaryCtxRelease(device_);
    check(result, "cuStreamCreate");
  }
}

CudaDevice::~CudaDevice() {
  if (given_up_) return;
  cu().CtxSetCurrent(context_);
  cu().StreamSynchronize(stream_);
  if (copy_stream_) cu().StreamSynchronize(copy_stream_);
  for (auto& [id, recording] : recordings_) destroy(recording);
  for (const InFlight& entry : in_flight_.entries()) {
    cu().EventDestroy(entry.done);
    if (entry.read.memory) cu().MemFreeHost(entry.read.memory);
    for (CUevent event : entry.marks) cu().EventDestroy(event);
  }
  for (Staging& slot : staged_) {
    cu().EventDestroy(slot.done);
    cu().MemFreeHost(slot.memory);
  }
  for (Staging& slot : free_staging_) cu().MemFreeHost(slot.memory);
  for (CUevent event : free_events_) cu().EventDestroy(event);
  if (epoch_) cu().EventDestroy(epoch_);
  for (auto& [id, kernel] : kernels_) cu().ModuleUnload(kernel.module);
  for (auto& [id, buffer] : buffers_) release(buffer);
  for (const CUstream stream : side_streams_) cu().StreamDestroy(stream);
  if (copy_stream_) cu().StreamDestroy(copy_stream_);
  cu().StreamDestroy(stream_);
  cu().DevicePrimaryCtxRelease(device_);
}

CUstream CudaDevice::make_stream() {
  CUstream stream = nullptr;
  expect(cu().StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

void CudaDevice::release(const Buffer& buffer) {
  if (buffer.host)
    cu().MemFreeHost(reinterpret_cast<void*>(static_cast<uintptr_t>(buffer.memory)));
  else
    cu().MemFree(buffer.memory);
}

// ---- errors ----

void CudaDevice::check_alive() const {
  if (!dead_.empty())
    throw DeviceLost(fmt::format("[{}] the device was lost: {}; go on from a checkpoint in a new process", id_, dead_));
}

// A context is current per thread, and consecutive calls may come from different threads.
void CudaDevice::activate() {
  check_alive();
  expect(cu().CtxSetCurrent(context_), "cuCtxSetCurrent");
}

void CudaDevice::lost(CUresult result, const char* call) {
  dead_ = fmt::format("{}: {}; last commands: {}", call, result_text(result),
                      last_submitted_.empty() ? "none" : last_submitted_);
  if (result == CUDA_ERROR_LAUNCH_TIMEOUT) {
    throw DeviceTimeout(
        fmt::format("[{}] the driver's watchdog ended a kernel: {}; a smaller batch makes shorter work", id_, dead_));
  }
  check_alive();
  throw DeviceLost(dead_);
}

void CudaDevice::expect(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  if (means_lost(result)) lost(result, call);
  std::string text = fmt::format("[{}] {}: {}", id_, call, result_text(result));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(text);
  throw DeviceError(text);
}

HandleLookup CudaDevice::lookup() const { return lookup_in(buffers_, kernels_); }

CudaDevice::Buffer& CudaDevice::buffer(BufferId id, const char* place) {
  auto found = buffers_.find(raw(id));
  if (found == buffers_.end()) throw DeviceError(fmt::format("[{}] the buffer handle {} is not alive", place, raw(id)));
  return found->second;
}

// ---- memory ----

BufferId CudaDevice::alloc(uint64_t bytes) {
  activate();
  check_allocation(bytes, caps_);
  CUdeviceptr memory = 0;
  CUresult result = cu().MemAlloc(&memory, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    throw OutOfMemory(fmt::format("[{}] cuMemAlloc of {} bytes: {}", id_, bytes, result_text(result)));
  }
  expect(result, "cuMemAlloc");
  buffers_[++next_id_] = {memory, bytes, false};
  return BufferId{next_id_};
}

void CudaDevice::free(BufferId id) {
  auto found = buffers_.find(raw(id));
  if (found == buffers_.end()) return;
  const Buffer buffer = found->second;
  buffers_.erase(found);
  ++frees_;
  drain();
  release(buffer);
}

BufferId CudaDevice::alloc_host(uint64_t bytes) {
  activate();
  check_allocation(bytes, caps_);
  void* memory = nullptr;
  const CUresult result = cu().MemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw OutOfMemory(fmt::format("[{}] cuMemHostAlloc of {} bytes: {}", id_, bytes, result_text(result)));
  expect(result, "cuMemHostAlloc");
  buffers_[++next_id_] = {reinterpret_cast<uintptr_t>(memory), bytes, true};
  return BufferId{next_id_};
}

// Waits until nothing uses what is about to be given back: rare, because core's allocator keeps its blocks. Never
// throws, as free and release run in destructors; a device that turns out to be lost says so in the next call, and
// takes back what it still can.
void CudaDevice::drain() {
  CUresult result = cu().CtxSetCurrent(context_);
  if (!dead_.empty()) return;
  if (result == CUDA_SUCCESS) result = cu().StreamSynchronize(stream_);
  if (result == CUDA_SUCCESS && copy_stream_) result = cu().StreamSynchronize(copy_stream_);
  if (result != CUDA_SUCCESS)
    dead_ = fmt::format("cuStreamSynchronize: {}; last commands: {}", result_text(result), last_submitted_);
}

void CudaDevice::reclaim_staging() {
  while (!staged_.empty() && finished(staged_.front().done)) {
    Staging slot = staged_.front();
    staged_.pop_front();
    staged_bytes_ -= slot.capacity;
    free_events_.push_back(std::exchange(slot.done, nullptr));
    if (free_staging_.size() < kept_staging) {
      free_staging_.push_back(slot);
    } else {
      expect(cu().MemFreeHost(slot.memory), "cuMemFreeHost");
    }
  }
}

// Page-locked memory of at least `bytes`; false when the driver gives none.
bool CudaDevice::take_staging(uint64_t bytes, Staging& slot) {
  reclaim_staging();
  while (!staged_.empty() && staged_bytes_ + bytes > max_staged_bytes) {
    in_flight_.wait_for(staged_.front().done);
    reclaim_staging();
  }
  auto best = free_staging_.end();
  for (auto at = free_staging_.begin(); at != free_staging_.end(); ++at) {
    if (at->capacity >= bytes && (best == free_staging_.end() || at->capacity < best->capacity)) best = at;
  }
  if (best != free_staging_.end()) {
    slot = *best;
    free_staging_.erase(best);
    return true;
  }
  if (!free_staging_.empty()) {  // all too small: one makes room, so that the pool follows the sizes in use
    expect(cu().MemFreeHost(free_staging_.back().memory), "cuMemFreeHost");
    free_staging_.pop_back();
  }
  slot = {};
  slot.capacity = std::max<uint64_t>(bytes, 4096);
  return cu().MemHostAlloc(&slot.memory, slot.capacity, 0) == CUDA_SUCCESS;
}

void CudaDevice::write(BufferId id, uint64_t offset, const void* source, uint64_t bytes) {
  activate();
  Buffer& target = buffer(id, "write");
  check_access("write", &target.bytes, offset, bytes);
  if (bytes == 0) return;
  Staging slot;
  if (bytes > direct_write_bytes || !take_staging(bytes, slot)) {
    expect(cu().MemcpyHtoDAsync(target.memory + offset, source, bytes, stream_), "cuMemcpyHtoDAsync");
    expect(cu().StreamSynchronize(stream_), "cuStreamSynchronize");
    return;
  }
  upload(stream_, target.memory + offset, source, bytes, slot);
}

// On a stream of its own, which waits for the submission that still needed the old bytes; the main stream waits for it
// from here on.
void CudaDevice::write_beside(BufferId id, uint64_t offset, const void* source, uint64_t bytes, Ticket after) {
  activate();
  Buffer& target = buffer(id, "write");
  check_access("write", &target.bytes, offset, bytes);
  if (bytes == 0) return;
  Staging slot;
  if (bytes > max_staged_bytes || !take_staging(bytes, slot)) return write(id, offset, source, bytes);
  if (!copy_stream_) copy_stream_ = make_stream();
  if (const InFlight* earlier = in_flight_.find(after))
    expect(cu().StreamWaitEvent(copy_stream_, earlier->done, 0), "cuStreamWaitEvent");
  upload(copy_stream_, target.memory + offset, source, bytes, slot);
  expect(cu().StreamWaitEvent(stream_, staged_.back().done, 0), "cuStreamWaitEvent");
}

void CudaDevice::upload(CUstream stream, CUdeviceptr target, const void* source, uint64_t bytes, Staging slot) {
  std::memcpy(slot.memory, source, bytes);
  slot.done = take_event();
  CUresult result = cu().MemcpyHtoDAsync(target, slot.memory, bytes, stream);
  if (result == CUDA_SUCCESS) result = cu().EventRecord(slot.done, stream);
  if (result != CUDA_SUCCESS) {
    // Nothing tells when a copy that was enqueued without its event is over, so the memory is given up, not reused.
    free_events_.push_back(slot.done);
    expect(result, "cuMemcpyHtoDAsync");
  }
  staged_bytes_ += slot.capacity;
  staged_.push_back(slot);
}

void CudaDevice::read(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  activate();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return;
  if (in_flight_.limited()) return wait(read_later(id, offset, target, bytes), nullptr);
  expect(cu().MemcpyDtoHAsync(target, source.memory + offset, bytes, stream_), "cuMemcpyDtoHAsync");
  expect(cu().StreamSynchronize(stream_), "cuStreamSynchronize");
  in_flight_.let_go_of_all();  // the stream is in order: what was enqueued before has finished
}

// ---- kernels ----

// The function of a loaded module, ready to be launched or captured.
void CudaDevice::make_ready(Kernel& kernel) {
  expect(cu().ModuleGetFunction(&kernel.function, kernel.module, "heddle_kernel"), "cuModuleGetFunction");
  int lanes = 0;
  // Also makes the driver load the function now: a lazy load inside a capture would fail.
  expect(cu().FuncGetAttribute(&lanes, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel.function), "cuFuncGetAttribute");
  const auto& group = kernel.signature.group;
  const uint64_t wanted = uint64_t{group[0]} * group[1] * group[2];
  if (wanted > static_cast<uint64_t>(lanes)) {
    throw LimitError(
        fmt::format("[compile] kernel {}: {} lanes a group are over this kernel's MAX_THREADS_PER_BLOCK = {} on {}",
                    kernel.signature.name, wanted, lanes, id_));
  }
  if (kernel.shared == 0) return;
  // The driver grants more than 48 KiB only to kernels that ask.
  expect(cu().FuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               static_cast<int>(kernel.shared)),
         "cuFuncSetAttribute");
}

std::vector<KernelId> CudaDevice::load_all(std::span<const KernelBinary* const> binaries) {
  activate();
  for (const KernelBinary* binary : binaries) check_binary(*binary, caps_);
  std::vector<KernelId> kernels;
  try {
    for (const KernelBinary* binary : binaries) kernels.push_back(load(*binary));
  } catch (...) {
    for (KernelId kernel : kernels) release(kernel);
    throw;
  }
  return kernels;
}

KernelId CudaDevice::load(const KernelBinary& binary) {
  Kernel kernel;
  kernel.signature = binary.signature;
  kernel.shared = binary.dynamic_shared;
  // A string ends in a zero byte, which cuModuleLoadData needs where the code is PTX.
  const std::string code(binary.bytes.begin(), binary.bytes.end());
  expect(cu().ModuleLoadData(&kernel.module, code.c_str()), "cuModuleLoadData");
  try {
    make_ready(kernel);
  } catch (...) {
    cu().ModuleUnload(kernel.module);
    throw;
  }
  kernels_[++next_id_] = std::move(kernel);
  return KernelId{next_id_};
}

void CudaDevice::release(KernelId id) {
  auto found = kernels_.find(raw(id));
  if (found == kernels_.end()) return;
  CUmodule module = found->second.module;
  kernels_.erase(found);
  drain();
  cu().ModuleUnload(module);
}

}  // namespace heddle::cuda
