// A pool is one kernel on every device, its gradient two at most; pools and resampling upload nothing, so that
// compile() replays them.
#include <gtest/gtest.h>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class PoolKernels : public DeviceTest {
 protected:
  uint64_t kernels(const Tensor& result) const {
    const uint64_t before = device().counters().kernels;
    eval({result});
    return device().counters().kernels - before;
  }
  Tensor image() const {
    std::vector<float> values(2 * 3 * 11 * 13);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101);
    return Tensor::from_vector(values, {2, 3, 11, 13}, &device());
  }
};

TEST_P(PoolKernels, OneForwardTwoBackward) {
  const Tensor x = image().set_requires_grad();
  EXPECT_EQ(kernels(max_pool2d(x, {2})), 1u);
  EXPECT_EQ(kernels(max_pool2d(x, {3}, {.stride = {2}, .padding = {1}})), 1u);
  EXPECT_EQ(kernels(avg_pool2d(x, {3}, {.stride = {2}, .padding = {1}, .count_padding = false})), 1u);
  const uint64_t backward = kernels(grad(sum(square(max_pool2d(x, {2}))), x));
  RecordProperty("backward_2x2", static_cast<int>(backward));
  const uint64_t overlapping = kernels(grad(sum(square(max_pool2d(x, {3}, {.stride = {2}, .padding = {1}}))), x));
  RecordProperty("backward_3x3", static_cast<int>(overlapping));
  EXPECT_LE(backward, 2u);
  EXPECT_LE(overlapping, 2u);
}

TEST_P(PoolKernels, Replay) {
  const auto f = compile([](const Tensor& x) {
    const Tensor y = avg_pool2d(x, {3}, {.stride = {2}, .padding = {1}, .count_padding = false});
    return sum(interpolate(adaptive_avg_pool2d(y, {5}), {.size = {8, 3}, .mode = Interpolation::linear})) +
           sum(max_pool2d_with_indices(y, {2}).indices);
  });
  const Tensor x = image();
  const double first = f(x).item();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x).item(), first);
  EXPECT_GE(f.stats().replayed, 2u) << f.stats().refusal;
}

HEDDLE_DEVICE_TESTS(PoolKernels);

}  // namespace
}  // namespace heddle::tests
