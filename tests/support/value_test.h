// A test fixture over the devices that give values: the reference and those that run kernels.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/core/graph/tensor.h"
#include "tests/support/device_test.h"

namespace heddle::tests {

class ValueTest : public DeviceTest {
 protected:
  void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance) {
    const std::vector<double> values = got.to_doubles();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
};

#define HEDDLE_VALUE_TESTS(Suite)                                                                \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(::heddle::test::value_devices()), \
                           ::heddle::tests::device_test_name)

}  // namespace heddle::tests
