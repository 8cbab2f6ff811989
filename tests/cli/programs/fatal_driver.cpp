// A driver of OpenCL and Vulkan that ends, or holds up, whoever loads it (tests/cli/driver_test.cpp).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void fail() {
  std::fprintf(stderr, "a line before\nNot enough memory to run on this device\n");
  if (std::getenv("FATAL_DRIVER_HANGS")) {
    for (;;) pause();
  }
  std::abort();
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void* clGetExtensionFunctionAddress(const char*) { fail(); }
__attribute__((visibility("default"))) int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned*) { fail(); }
__attribute__((visibility("default"))) void* vk_icdGetInstanceProcAddr(void*, const char*) { fail(); }
}
