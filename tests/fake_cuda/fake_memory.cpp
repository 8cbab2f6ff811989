// Memory of the device and of the host, and copies between them.
#include <cstring>
#include <new>

#include "tests/fake_cuda/fake_driver.h"

using namespace heddle::fake_cuda;

namespace {

bool inside(const std::map<uintptr_t, size_t>& blocks, CUdeviceptr address, size_t bytes) {
  const Held held(state().mutex);
  auto after = blocks.upper_bound(static_cast<uintptr_t>(address));
  if (after == blocks.begin()) return false;
  auto block = std::prev(after);
  return address + bytes <= block->first + block->second;
}
bool valid(CUdeviceptr address, size_t bytes) { return inside(state().memory, address, bytes); }

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

}  // namespace

extern "C" {

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

}  // extern "C"
