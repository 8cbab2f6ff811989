// CLBlast and an OpenCL loader, as bench/peers/clblast.cpp uses them.
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>

int main() {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS)
    return 0;
  cl_command_queue queue = nullptr;
  cl_mem memory = nullptr;
  CLBlastStatusCode code = CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, 1, 1, 1, 1.0f,
                                        memory, 0, 1, memory, 0, 1, 0.0f, memory, 0, 1, &queue, nullptr);
  code = CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, 1, 1, 1, 1.0f,
                                    memory, 0, 1, 1, memory, 0, 1, 1, 0.0f, memory, 0, 1, 1, 1, &queue, nullptr);
  return static_cast<int>(code);
}
