// The device of the tests' libcuda, its errors, and what tests ask of it.
#include "tests/fake_cuda/fake_libcuda.h"

#include <cstring>

#include "tests/fake_cuda/fake_driver.h"

using namespace heddle::fake_cuda;

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
  make_context_current(context != nullptr);
  return enter("cuCtxSetCurrent", false);
}

}  // extern "C"
