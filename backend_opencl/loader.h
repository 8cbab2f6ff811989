// The OpenCL ICD loader, opened at run time.
//
// Purpose: no binary of Heddle links libOpenCL, so it starts on a machine without OpenCL and can say what is missing.
// Invariants: the library is opened once and never closed (drivers keep threads); all entry points belong to
// OpenCL 1.2. Thread safety: every function may be called from any thread.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <string>

namespace heddle::opencl {

// The entry points that the backend uses, named as in the API without the leading "cl".
// clang-format off
#define HEDDLE_CL_FUNCTIONS(F) \
  F(GetPlatformIDs) F(GetPlatformInfo) F(GetDeviceIDs) F(GetDeviceInfo) F(CreateContext) F(ReleaseContext) \
  F(CreateCommandQueue) F(ReleaseCommandQueue) F(CreateBuffer) F(ReleaseMemObject) F(CreateProgramWithSource) \
  F(CreateProgramWithBinary) F(BuildProgram) F(GetProgramInfo) F(GetProgramBuildInfo) F(ReleaseProgram) \
  F(CreateKernel) F(ReleaseKernel) F(SetKernelArg) F(GetKernelInfo) F(GetKernelWorkGroupInfo) F(EnqueueNDRangeKernel) \
  F(EnqueueReadBuffer) F(EnqueueWriteBuffer) F(EnqueueCopyBuffer) F(EnqueueFillBuffer) F(EnqueueMarkerWithWaitList) \
  F(EnqueueMapBuffer) F(EnqueueUnmapMemObject) F(RetainEvent) F(WaitForEvents) F(GetEventInfo) F(GetEventProfilingInfo) F(ReleaseEvent) \
  F(Flush) F(Finish)
// clang-format on

struct Api {
#define HEDDLE_CL_POINTER(name) decltype(&::cl##name) name = nullptr;
  HEDDLE_CL_FUNCTIONS(HEDDLE_CL_POINTER)
#undef HEDDLE_CL_POINTER
};

// The loaded API, or null with the reason in *absent ("libOpenCL.so.1 not found").
const Api* try_cl(std::string* absent = nullptr);
// The loaded API; only called where try_cl succeeded before.
const Api& cl();

}  // namespace heddle::opencl
