// Gradient accumulation: several parts are the large batch within rounding, also uneven, scaled, compiled and in mixed
// precision.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class AccumulateOn : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }

  // Losses and parameters of five steps of 32 examples.
  Values train(const nn::AccumulateOptions& options, bool compiled = false, std::optional<DType> low = {}) {
    Generator generator(3);
    nn::Sequential model{nn::Linear(10, 16, {.device = where(), .generator = &generator}), nn::ReLU(),
                         nn::Linear(16, 4, {.device = where(), .generator = &generator})};
    nn::AdamW optimizer(model.parameters(), {.lr = 0.01});
    if (options.scale != nullptr) optimizer.set_loss_scale(*options.scale);
    const auto step = [&](const Tensor& x, const Tensor& y) {
      const auto loss = [&](const Tensor& images, const Tensor& labels) {
        std::optional<AutocastScope> scope;
        if (low) scope.emplace(*low);
        return cross_entropy(model(images), labels);
      };
      const Tensor result = nn::accumulate(options, loss, x, y);
      optimizer.update();
      optimizer.zero_grad();
      return result;
    };
    auto fast = compile(step);
    Values all;
    for (int i = 0; i < 5; ++i) {
      Values x;
      std::vector<int32_t> y;
      for (int k = 0; k < 320; ++k) x.push_back(std::sin(0.37 * k * (i + 1)));
      for (int k = 0; k < 32; ++k) y.push_back((k * k + i) % 4);
      const Tensor images = f32(x, {32, 10}, where()), labels = Tensor::from_vector(y, Shape{32}, &where());
      all.push_back((compiled ? fast(images, labels) : step(images, labels)).item());
    }
    for (const Tensor& parameter : model.parameters()) {
      const Values values = parameter.to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  static void expect_close(const Values& got, const Values& expected, double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AccumulateOn, testing::ValuesIn(test::value_devices()), device_test_name);

TEST_P(AccumulateOn, PartsAreTheLargeBatch) {
  const Values whole = train({});
  expect_close(train({.parts = 4}), whole, 1e-5);
  expect_close(train({.parts = 5}), whole, 1e-5);  // 7, 7, 6, 6, 6
  expect_close(train({.parts = 4}, true), whole, 1e-5);
}

TEST_P(AccumulateOn, TakesAScaleAndMixedPrecision) {
  const nn::LossScale scale({.device = where()}), other({.device = where()});
  expect_close(train({.parts = 4, .scale = &scale}, true), train({}), 1e-5);
  expect_close(train({.parts = 4, .scale = &other}, true, DType::f16), train({}), 2e-2);
}

TEST(Accumulate, RefusesWhatIsNoBatch) {
  const auto loss = [](const Tensor& x) { return mean(x); };
  const Tensor x = f32({1, 2, 3}, {3}).set_requires_grad();
  expect_error<ValueError>([&] { nn::accumulate({.parts = 4}, loss, x); }, {"[accumulate]", "4 parts of 3 examples"});
  expect_error<ValueError>([&] { nn::accumulate({.parts = 0}, loss, x); }, {"0 parts"});
  expect_error<ShapeError>([&] { nn::accumulate({.parts = 1}, loss, f32({1}, {})); }, {"axis of examples"});
  const auto two = [](const Tensor& a, const Tensor& b) { return mean(a + b); };
  expect_error<ShapeError>([&] { nn::accumulate({.parts = 1}, two, x, f32({1, 2}, {2})); }, {"(2)", "3 examples"});
}

}  // namespace
}  // namespace heddle::tests
