// Convolutions and their input gradients that specialize() cuts along the channels: forced at odd sizes, with strides,
// groups, layouts and dtypes, with an epilogue after the sum; against the double-precision device.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/conv.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/device_test.h"
#include "tests/support/eighths.h"

namespace heddle::tests {
namespace {

class SplitConv : public DeviceTest {
 protected:
  using Function = std::function<Tensor(const Tensor& x, const Tensor& w)>;

  // `kernels`: of the device; 0: any number.
  void check(const Shape& x, const Shape& w, const Function& f, DType dtype = DType::f32, uint64_t kernels = 0,
             double rounding = 0) {
    const auto on = [&](DeviceContext& d) {
      const Tensor a = Tensor::from_vector(eighths(x.numel(), 1), x, &d).to(dtype),
                   b = Tensor::from_vector(eighths(w.numel(), 2), w, &d).to(dtype);
      eval({a, b});
      const uint64_t before = d.counters().kernels;
      const std::vector<double> result = f(a, b).to_doubles();
      if (kernels > 0 && &d == &device()) {
        EXPECT_EQ(d.counters().kernels - before, kernels);
      }
      return result;
    };
    const std::vector<double> got = on(device()), expected = on(heddle::device("reference:0"));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], rounding * (1 + std::abs(expected[i]))) << i;
  }
};

TEST_P(SplitConv, Forced) {
  const ScopedTuning forced({"conv_parts", "", {}}, {{"PARTS", 3}});
  // Partial sums, and their sum with what follows.
  check(
      {2, 7, 5, 6}, {9, 7, 3, 3},
      [](const Tensor& x, const Tensor& w) { return relu(conv2d(x, w, {.padding = {1}}) + 0.5); }, DType::f32, 2);
  check({3, 8, 7, 5}, {6, 4, 3, 2}, [](const Tensor& x, const Tensor& w) {
    return conv2d(x, w, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2});
  });
  check({2, 6, 4, 7}, {6, 5, 3, 3}, [](const Tensor& x, const Tensor& w) {
    return relu(conv_transpose2d(x, w, {.stride = {2, 3}, .padding = {1, 1}}));
  });
  check({2, 5, 4, 7}, {3, 7, 2, 2},
        [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.layout = ConvLayout::channels_last}); });
  check({1, 4, 3, 4, 5}, {3, 4, 2, 3, 2}, [](const Tensor& x, const Tensor& w) { return conv3d(x, w); });
  // More parts than channels: one of each.
  check({2, 2, 9}, {5, 2, 3}, [](const Tensor& x, const Tensor& w) { return conv1d(x, w); });
}

TEST_P(SplitConv, HalfIsRoundedOnce) {
  const ScopedTuning forced({"conv_parts", "", {}}, {{"PARTS", 4}});
  const Function f = [](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.padding = {1}}); };
  check({2, 11, 5, 6}, {9, 11, 3, 3}, f, DType::f16, 0, 1e-3);
  check({2, 11, 5, 6}, {9, 11, 3, 3}, f, DType::bf16, 0, 8e-3);
}

// A value that is not finite reaches the results that it is part of, whatever part it is in.
TEST_P(SplitConv, NotANumber) {
  const ScopedTuning forced({"conv_parts", "", {}}, {{"PARTS", 2}});
  std::vector<float> x(2 * 6 * 4 * 4, 1.0f);
  x[3 * 16 + 5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = Tensor::from_vector(x, {2, 6, 4, 4}, &device());
  const std::vector<double> y = conv2d(a, ones({5, 6, 1, 1}, DType::f32, &device())).to_doubles();
  for (size_t i = 0; i < y.size(); ++i) {
    if (i < 5 * 16 && i % 16 == 5) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
    } else {
      EXPECT_EQ(y[i], 6.0) << i;
    }
  }
}

TEST_P(SplitConv, SameBitsInEveryRun) {
  const ScopedTuning forced({"conv_parts", "", {}}, {{"PARTS", 4}});
  const auto run = [&] {
    std::vector<float> x = eighths(3 * 16 * 7 * 7, 5), w = eighths(12 * 16 * 9, 6);
    for (float& v : x) v = std::sin(100 * v);
    return conv2d(Tensor::from_vector(x, {3, 16, 7, 7}, &device()), Tensor::from_vector(w, {12, 16, 3, 3}, &device()))
        .to_doubles();
  };
  EXPECT_EQ(run(), run());
}

HEDDLE_DEVICE_TESTS(SplitConv);

}  // namespace
}  // namespace heddle::tests
