// Elementwise kernels that take several neighbours a lane (gradients of pools, repeats, pixel shuffles): sizes that the
// step divides and sizes that leave an edge, along one dimension and two, against reference:0, which knows no kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/ir/dynamic_shapes.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

class ElementwiseSteps : public DeviceTest {
 protected:
  // Kernels that do not depend on sizes divide: each shape gets its own, but in one test.
  void SetUp() override { set_dynamic_shapes(DynamicShapes::never); }
  void TearDown() override { set_dynamic_shapes(before_); }
  const DynamicShapes before_ = dynamic_shapes();

  using Program = std::function<Tensor(const Tensor& x)>;

  static std::vector<float> run(DeviceContext& dev, const Program& f, const std::vector<float>& x, const Shape& shape) {
    return f(Tensor::from_vector(x, shape, &dev)).to_vector<float>();
  }

  // Whole numbers, so that sums are exact; with `holes` some are NaN.
  void expect(const Program& f, const Shape& shape, bool holes = false) {
    SCOPED_TRACE(shape.str());
    std::vector<float> x(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = holes && i % 7 == 3 ? nan : static_cast<float>(static_cast<int>(i * 131 % 101) - 50);
    const std::vector<float> want = run(heddle::device("reference:0"), f, x, shape), got = run(device(), f, x, shape);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]))
        ASSERT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
      else
        ASSERT_EQ(got[i], want[i]) << "element " << i;
    }
  }

  // The gradient of a sum whose terms have different weights.
  static Program gradient(const Program& f) {
    return [f](const Tensor& given) {
      const Tensor x = Tensor(given).set_requires_grad();
      const Tensor y = f(x);
      const Tensor weights =
          reshape(arange(1, static_cast<double>(y.numel() + 1), 1, DType::f32, &x.device()), y.shape());
      return grad(sum(y * weights), x);
    };
  }
};

TEST_P(ElementwiseSteps, GradientOfMaxPool) {
  for (const int64_t window : {2, 3}) {
    const Program pool = gradient([&](const Tensor& x) { return relu(max_pool2d(x, {window})); });
    // Both sides divide; a column, a row or both are left over; one window; rows of more than a vector.
    for (const Shape& shape :
         {Shape{2, 3, 6, 12}, {2, 3, 6, 13}, {2, 3, 7, 12}, {1, 2, 11, 7}, {1, 1, 3, 3}, {1, 2, 6, 12 * 23}})
      expect(pool, shape);
    expect(pool, {2, 2, 7, 12}, true);
  }
}

TEST_P(ElementwiseSteps, GradientsOfWindowsThatOverlap) {
  const Program pool = gradient([](const Tensor& x) { return max_pool1d(x, {3}, {.stride = {2}, .padding = {1}}); });
  for (const Shape& shape : {Shape{2, 3, 8}, {2, 3, 9}, {1, 2, 333}}) expect(pool, shape, true);
  expect(gradient([](const Tensor& x) { return max_pool2d(x, {3}, {.stride = {2}, .padding = {1}}); }), {2, 3, 9, 12});
}

TEST_P(ElementwiseSteps, GradientsOfOtherWindows) {
  expect(gradient([](const Tensor& x) { return max_pool2d(x, {2}, {.stride = {3}}); }), {1, 2, 9, 11}, true);
  expect(gradient([](const Tensor& x) { return max_pool1d(x, {4}); }), {2, 3, 37});
  expect(gradient([](const Tensor& x) { return avg_pool2d(x, {2, 4}); }), {2, 3, 6, 16});
}

TEST_P(ElementwiseSteps, WindowsAreRead) {
  for (const Shape& shape : {Shape{2, 3, 6, 13}, {1, 2, 9, 100}, {1, 1, 3, 3}}) {
    expect([](const Tensor& x) { return max_pool2d(x, {2}); }, shape, true);
    expect([](const Tensor& x) { return max_pool2d(x, {3}, {.stride = {2}, .padding = {1}}); }, shape, true);
  }
}

TEST_P(ElementwiseSteps, RepeatsAndShuffles) {
  for (const int64_t times : {2, 3, 8, 9}) {
    expect([&](const Tensor& x) { return repeat_interleave(x * 2, times, 2) + 1; }, {3, 5, 7});
    expect([&](const Tensor& x) { return repeat_interleave(x * 2, times, 1) + 1; }, {3, 5, 7});
    expect([&](const Tensor& x) { return repeat_interleave(repeat_interleave(x, times, 1), times, 2) * 3; }, {3, 5, 7});
  }
  for (const int64_t factor : {2, 3})
    expect([&](const Tensor& x) { return pixel_shuffle(x, factor) * 2; }, {2, 2 * factor * factor, 5, 9});
  expect([](const Tensor& x) { return repeat_interleave(x, 2, 1); }, {4, 0});
}

TEST_P(ElementwiseSteps, SizesThatVary) {
  set_dynamic_shapes(DynamicShapes::always);
  const Program pool = gradient([](const Tensor& x) { return relu(max_pool2d(x, {2})); });
  for (const Shape& shape : {Shape{2, 3, 6, 12}, {2, 3, 7, 12}, {2, 3, 8, 14}}) expect(pool, shape, true);
  expect([](const Tensor& x) { return repeat_interleave(x, 3, 2) + 1; }, {3, 5, 7});
}

HEDDLE_DEVICE_TESTS(ElementwiseSteps);

}  // namespace
}  // namespace heddle::tests
