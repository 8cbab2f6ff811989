// Shared by the kernel tests: devices, exact test values, schedules of the bodies.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "checks/kernel_test.h"
#include "tests/support/device_test.h"

namespace heddle::test {

// Beside what other projects have: kernels that were made here, and those that are compiled only.
class KernelTest : public heddle::KernelTest {
 protected:
  using heddle::KernelTest::run;
  bool on_vulkan_gpu() const { return caps().target == Target::glsl && caps().device_class != DeviceClass::cpu; }
  bool on_opencl() const { return caps().target == Target::opencl; }
  KernelOutcome run(const KernelSource& source, const KernelRun& r) {
    return locked([&](Device& device) { return run_kernel(device, source, r); });
  }
  void compile(const KernelSource& source) {
    locked([&](Device& device) { device.release(device.compile(source)); });
  }
};

// cuda:0 only where there is an NVIDIA driver, or alone over the executor of PTX (tools/ptx.sh): elsewhere every test
// would be a skip.
inline std::vector<std::string> driver_ids() {
  if (std::getenv("HEDDLE_TEST_PTX")) return {"cuda:0"};
  std::vector<std::string> ids = {"opencl:0", "vulkan:0"};
  if (std::filesystem::exists("/dev/nvidiactl")) ids.push_back("cuda:0");
  return ids;
}

#undef HEDDLE_ON_DEVICES
#define HEDDLE_ON_DEVICES(Suite)                                                          \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, testing::ValuesIn(heddle::test::driver_ids()), \
                           heddle::tests::backend_test_name)

// Multiples of 1/4 in [-2, 2): exact in every float type, and sums of many products of them are exact in f32.
inline double quarter(uint64_t& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<double>(state >> 60) / 4 - 2;
}
inline std::vector<double> quarters(size_t count, uint64_t seed) {
  std::vector<double> values(count);
  for (double& v : values) v = quarter(seed);
  return values;
}

}  // namespace heddle::test
