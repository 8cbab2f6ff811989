// The CUDA driver API (libcuda.so.1), opened at run time.
//
// Purpose: no binary of Heddle links libcuda, so it starts on a machine without an NVIDIA driver and can say what is
// missing. The table below fixes symbol names and signatures itself instead of using the header's macros, because a
// newer header would otherwise ask an older driver for symbols that it does not have (cuEventElapsedTime_v2, ...).
// Invariants: the library is opened and cuInit called once; every pointer is non-null when try_cu() gives the table.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cuda.h>

#include <string>

namespace heddle::cuda {

// F(member, symbol, parameters...); all return CUresult. Symbols exist since driver 11.4.
#define HEDDLE_CU_FUNCTIONS(F)                                                                                        \
  F(Init, "cuInit", unsigned)                                                                                         \
  F(DriverGetVersion, "cuDriverGetVersion", int*)                                                                     \
  F(GetErrorName, "cuGetErrorName", CUresult, const char**)                                                           \
  F(GetErrorString, "cuGetErrorString", CUresult, const char**)                                                       \
  F(DeviceGetCount, "cuDeviceGetCount", int*)                                                                         \
  F(DeviceGet, "cuDeviceGet", CUdevice*, int)                                                                         \
  F(DeviceGetName, "cuDeviceGetName", char*, int, CUdevice)                                                           \
  F(DeviceGetAttribute, "cuDeviceGetAttribute", int*, CUdevice_attribute, CUdevice)                                   \
  F(DeviceTotalMem, "cuDeviceTotalMem_v2", size_t*, CUdevice)                                                         \
  F(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", CUcontext*, CUdevice)                                         \
  F(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", CUdevice)                                                \
  F(CtxSetCurrent, "cuCtxSetCurrent", CUcontext)                                                                      \
  F(MemAlloc, "cuMemAlloc_v2", CUdeviceptr*, size_t)                                                                  \
  F(MemFree, "cuMemFree_v2", CUdeviceptr)                                                                             \
  F(MemHostAlloc, "cuMemHostAlloc", void**, size_t, unsigned)                                                         \
  F(MemFreeHost, "cuMemFreeHost", void*)                                                                              \
  F(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", CUdeviceptr, const void*, size_t, CUstream)                              \
  F(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", void*, CUdeviceptr, size_t, CUstream)                                    \
  F(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", CUdeviceptr, CUdeviceptr, size_t, CUstream)                              \
  F(MemcpyAsync, "cuMemcpyAsync", CUdeviceptr, CUdeviceptr, size_t, CUstream)                                         \
  F(MemsetD32Async, "cuMemsetD32Async", CUdeviceptr, unsigned, size_t, CUstream)                                      \
  F(StreamCreate, "cuStreamCreate", CUstream*, unsigned)                                                              \
  F(StreamDestroy, "cuStreamDestroy_v2", CUstream)                                                                    \
  F(StreamSynchronize, "cuStreamSynchronize", CUstream)                                                               \
  F(StreamWaitEvent, "cuStreamWaitEvent", CUstream, CUevent, unsigned)                                                \
  F(StreamBeginCapture, "cuStreamBeginCapture_v2", CUstream, CUstreamCaptureMode)                                     \
  F(StreamEndCapture, "cuStreamEndCapture", CUstream, CUgraph*)                                                       \
  F(GraphInstantiate, "cuGraphInstantiateWithFlags", CUgraphExec*, CUgraph, unsigned long long)                       \
  F(GraphLaunch, "cuGraphLaunch", CUgraphExec, CUstream)                                                              \
  F(GraphDestroy, "cuGraphDestroy", CUgraph)                                                                          \
  F(GraphExecDestroy, "cuGraphExecDestroy", CUgraphExec)                                                              \
  F(EventCreate, "cuEventCreate", CUevent*, unsigned)                                                                 \
  F(EventDestroy, "cuEventDestroy_v2", CUevent)                                                                       \
  F(EventRecord, "cuEventRecord", CUevent, CUstream)                                                                  \
  F(EventQuery, "cuEventQuery", CUevent)                                                                              \
  F(EventSynchronize, "cuEventSynchronize", CUevent)                                                                  \
  F(EventElapsedTime, "cuEventElapsedTime", float*, CUevent, CUevent)                                                 \
  F(ModuleLoadData, "cuModuleLoadData", CUmodule*, const void*)                                                       \
  F(ModuleUnload, "cuModuleUnload", CUmodule)                                                                         \
  F(ModuleGetFunction, "cuModuleGetFunction", CUfunction*, CUmodule, const char*)                                     \
  F(FuncGetAttribute, "cuFuncGetAttribute", int*, CUfunction_attribute, CUfunction)                                   \
  F(FuncSetAttribute, "cuFuncSetAttribute", CUfunction, CUfunction_attribute, int)                                    \
  F(LaunchKernel, "cuLaunchKernel", CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    CUstream, void**, void**)

struct DriverApi {
#define HEDDLE_CU_POINTER(member, symbol, ...) CUresult(CUDAAPI* member)(__VA_ARGS__) = nullptr;
  HEDDLE_CU_FUNCTIONS(HEDDLE_CU_POINTER)
#undef HEDDLE_CU_POINTER
  int version = 0;  // of the driver API: 13000 is 13.0
};

// The API after a successful cuInit, or null with the reason in *absent ("libcuda.so.1 not found").
const DriverApi* try_cu(std::string* absent = nullptr);
// The API; only called where try_cu succeeded before.
const DriverApi& cu();

// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
std::string result_text(CUresult result);
// Throws DeviceError "[cuda] cuFoo: ..." unless result is CUDA_SUCCESS; for calls outside a device.
void check(CUresult result, const char* call);
// True for errors after which the context cannot be used any more.
bool means_lost(CUresult result);

}  // namespace heddle::cuda
