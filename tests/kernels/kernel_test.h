// Shared by the kernel tests: devices, exact test values, schedules of the bodies.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/harness.h"

namespace heddle::test {

// A test over the devices that compile kernels; skipped, visibly, where one is absent.
class KernelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      context_ = &heddle::device(GetParam());
    } catch (const DeviceUnavailable& e) {
      GTEST_SKIP() << e.what();
    }
  }
  bool on_opencl() const { return context_->caps().target == Target::opencl; }
  const Caps& caps() const { return context_->caps(); }
  KernelOutcome run(const KernelFile& file, const KernelFile::Options& options, const KernelRun& r) {
    auto locked = context_->lock();
    return run_kernel(locked.device, file, options, r);
  }
  KernelOutcome run(const KernelSource& source, const KernelRun& r) {
    auto locked = context_->lock();
    return run_kernel(locked.device, source, r);
  }
  // Compiles only.
  void compile(const KernelSource& source) {
    auto locked = context_->lock();
    locked.device.release(locked.device.compile(source));
  }

 private:
  DeviceContext* context_ = nullptr;
};

inline std::string device_name(const testing::TestParamInfo<const char*>& info) {
  const std::string id = info.param;
  return id.substr(0, id.find(':'));
}

// cuda:0 only where there is an NVIDIA driver, or alone over the executor of PTX (tools/ptx.sh): elsewhere every test
// would be a skip.
inline std::vector<const char*> driver_ids() {
  if (std::getenv("HEDDLE_TEST_PTX")) return {"cuda:0"};
  std::vector<const char*> ids = {"opencl:0", "vulkan:0"};
  if (std::filesystem::exists("/dev/nvidiactl")) ids.push_back("cuda:0");
  return ids;
}

#define HEDDLE_ON_DEVICES(Suite) \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, testing::ValuesIn(heddle::test::driver_ids()), heddle::test::device_name)

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
