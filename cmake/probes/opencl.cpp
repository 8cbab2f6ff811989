// The Khronos headers, as backend_opencl uses them; the loader is opened at run time.
#include "heddle/backend_opencl/loader.h"

int main() { return CL_DEVICE_OPENCL_C_VERSION == CL_DEVICE_DOUBLE_FP_CONFIG; }
