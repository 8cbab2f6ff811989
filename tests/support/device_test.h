// A test fixture over the devices that run kernels, and what tests of them share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "tests/support/devices.h"
#include "tests/support/noise.h"

namespace heddle::tests {

class DeviceTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
  // f32, uniform in [-1, 1), the same everywhere.
  Tensor drawn(const Shape& shape, uint64_t seed) const {
    const std::vector<double> values = test::noise(shape.numel(), seed);
    return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &device());
  }
};

inline std::string device_test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
}

// By the backend alone: "opencl" of "opencl:0".
inline std::string backend_test_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

// On every device with kernels; a machine without any driver has no such test.
#define HEDDLE_DEVICE_TESTS(Suite)                                                                \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite);                                           \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(::heddle::test::kernel_devices()), \
                           ::heddle::tests::device_test_name)

}  // namespace heddle::tests
