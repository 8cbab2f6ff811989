// Tests of functions in parts over ranks against the whole: on a device that the parameter names, in f64 and within
// 1e-10 on the reference device, in f32 and within 1e-5 on others.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/device/registry.h"
#include "tests/distributed/ranks_by_hand.h"

namespace heddle::distributed::test {

class ValuesTest : public testing::TestWithParam<std::string> {
 protected:
  bool exact() const { return GetParam() == "reference:0"; }
  DeviceContext& device() const { return heddle::device(GetParam()); }
  DType dtype() const { return exact() ? DType::f64 : DType::f32; }
  Tensor numbers(const Shape& shape, uint32_t seed) const { return drawn(shape, seed, dtype(), device()); }

  void expect_same(const Tensor& got, const Tensor& expected, const std::string& what) const {
    ASSERT_EQ(got.shape(), expected.shape()) << what;
    const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
    const double near = exact() ? 1e-10 : 1e-5;
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], near * (1 + std::abs(b[i]))) << what << " at " << i;
  }
};

}  // namespace heddle::distributed::test
