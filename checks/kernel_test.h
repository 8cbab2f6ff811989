// KernelTest: tests of kernels with GoogleTest, on every device of the machine, for projects that use the installed
// Heddle (find_package(heddle COMPONENTS kernel_test), examples/kernel_test/README.md).
//
// Purpose: a kernel engineer's own .hk, GLSL, SPIR-V, OpenCL C or CUDA C++ runs by core/dialect/harness.h with arrays
// in and arrays out. On a device, guard bytes find writes outside of buffers. The executor of PTX, which stands for
// cuda:0 in the second test that heddle_add_kernel_test() makes, finds reads as well, races and uninitialised bytes in
// shared memory, misaligned accesses and barriers that not all lanes reach; run() throws DeviceError, which names the
// fault and the line of the kernel's text, and other tests go on. Header only, since GoogleTest is no part of
// libheddle. HEDDLE_TEST_DEVICES="vulkan:0,opencl:0" chooses devices. Thread safety: one test at a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/dialect/harness.h"

namespace heddle {

class KernelTest : public testing::TestWithParam<std::string> {
 protected:
  // Skipped, visibly, where the device is not there.
  void SetUp() override {
    try {
      context_ = &heddle::device(GetParam());
    } catch (const DeviceUnavailable& e) {
      GTEST_SKIP() << e.what();
    }
  }

  const Caps& caps() const { return context_->caps(); }
  // The executor of PTX looks at every access itself, so its buffers have no guards to hide behind.
  bool on_executor() const { return context_->info().name == "Fake GPU"; }
  // Whether the device is of the kind that the text is written for: `if (!takes(text)) GTEST_SKIP();`.
  bool takes(const KernelText& text) const { return caps().target == text.target(); }

  // `call(device)` while no other thread uses the device.
  template <class Call>
  auto locked(Call call) {
    auto under_lock = context_->lock();
    return call(under_lock.device);
  }

  KernelOutcome run(const KernelFile& file, const KernelFile::Options& options, KernelRun r) {
    return locked([&](Device& device) { return run_kernel(device, file, options, guarded(r)); });
  }
  KernelOutcome run(const KernelText& text, KernelRun r) {
    return locked([&](Device& device) { return run_kernel(device, text, guarded(r)); });
  }

 private:
  KernelRun& guarded(KernelRun& r) const {
    r.guards = r.guards && !on_executor();
    return r;
  }

  DeviceContext* context_ = nullptr;
};

// Ids of HEDDLE_TEST_DEVICES, else of all devices here that compile kernels.
inline std::vector<std::string> kernel_test_devices() {
  std::vector<std::string> ids;
  if (const char* chosen = std::getenv("HEDDLE_TEST_DEVICES")) {
    std::istringstream list(chosen);
    for (std::string id; std::getline(list, id, ',');) ids.push_back(id);
    return ids;
  }
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.available && info.caps.target != Target::none && info.backend != "null") ids.push_back(info.id);
  }
  return ids;
}

// "vulkan_0".
inline std::string kernel_test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace heddle

// HEDDLE_ON_DEVICES(MyKernel); behind `class MyKernel : public heddle::KernelTest {};`
#define HEDDLE_ON_DEVICES(Suite)                        \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite); \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, testing::ValuesIn(heddle::kernel_test_devices()), heddle::kernel_test_name)
