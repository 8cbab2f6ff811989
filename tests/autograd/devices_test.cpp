// Values and gradients of every case in f32 on the drivers equal those of the reference device.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "tests/autograd/cases.h"

namespace heddle::tests {
namespace {

// The value and the gradients of all inputs, from a cotangent that is the same everywhere.
std::vector<std::vector<double>> evaluate_case(const GradientCase& c, DeviceContext& where) {
  const std::vector<Tensor> inputs = make_inputs(c, DType::f32, where);
  const Tensor y = c.f(inputs);
  std::vector<float> weights(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = 2 * philox_uniform({11, 0, 0, 0}, i) - 1;
  const Tensor cotangent = Tensor::from_vector(weights, y.shape(), &where);
  std::vector<std::vector<double>> result{{}};
  for (const Tensor& g : grad(y, std::span<const Tensor>(inputs), cotangent)) result.push_back(g.to_doubles());
  result[0] = y.to_doubles();
  return result;
}

class OnDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device_ = &device(GetParam());
    } catch (const DeviceUnavailable& error) {
      GTEST_SKIP() << error.what();
    }
  }

  void check(const std::vector<GradientCase>& cases) {
    for (const GradientCase& c : cases) {
      SCOPED_TRACE(c.name);
      const auto expected = evaluate_case(c, device("reference:0"));
      const auto found = evaluate_case(c, *device_);
      ASSERT_EQ(expected.size(), found.size());
      for (size_t k = 0; k < expected.size(); ++k) compare(c.name, k, expected[k], found[k]);
    }
  }

  static void compare(const std::string& name, size_t k, const std::vector<double>& expected,
                      const std::vector<double>& found) {
    ASSERT_EQ(expected.size(), found.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 2e-5 + 2e-4 * std::abs(expected[i]))
          << name << ", " << (k == 0 ? std::string("value") : "gradient " + std::to_string(k - 1)) << ", element " << i;
    }
  }

  DeviceContext* device_ = nullptr;
};

TEST_P(OnDevice, ElementwiseRows) { check(elementwise_cases()); }
TEST_P(OnDevice, Functions) { check(function_cases()); }

TEST_P(OnDevice, BackwardTwiceGivesTheSameBits) {
  const GradientCase c{
      "mlp", {{7, 9}, {5, 9}, {5}}, [](Inputs in) { return relu(matmul(in[0], transpose(in[1])) + in[2]); }};
  const auto first = evaluate_case(c, *device_);
  EXPECT_EQ(first, evaluate_case(c, *device_));
}

INSTANTIATE_TEST_SUITE_P(Drivers, OnDevice, testing::Values("opencl:0", "vulkan:0", "cuda:0"),
                         [](const auto& param_info) {
                           const std::string id = param_info.param;
                           return id.substr(0, id.find(':'));
                         });

}  // namespace
}  // namespace heddle::tests
