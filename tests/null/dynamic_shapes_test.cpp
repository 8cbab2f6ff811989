// New sizes plan anew, but find their kernels: numbers computed from sizes are constants of the launch.
#include <gtest/gtest.h>

#include "autograd/autograd.h"
#include "core/graph/functions.h"

namespace heddle {
namespace {

uint64_t compiled_by(int64_t rows, int64_t columns) {
  DeviceContext& device = heddle::device("null:0");
  const uint64_t before = device.counters().kernels_compiled;
  Tensor x = Tensor::from_vector(std::vector<float>(static_cast<size_t>(rows * columns), 0.5f), Shape{rows, columns}, &device);
  x.set_requires_grad();
  const Tensor targets = Tensor::from_vector(std::vector<int32_t>(static_cast<size_t>(rows), 1), Shape{rows}, &device);
  const Tensor centred = x - mean(x, {1}, true);
  const Tensor loss = cross_entropy(centred * rsqrt(mean(centred * centred, {1}, true) + 1e-5), targets) + mean(x * x);
  const Tensor gradient = grad(loss, x);
  eval({loss, gradient});
  return device.counters().kernels_compiled - before;
}

TEST(DynamicShapes, MeansOfOtherSizesAreNoNewKernels) {
  EXPECT_GT(compiled_by(37, 75), 0u);
  for (const int64_t rows : {39, 41, 45, 51, 59}) {
    EXPECT_EQ(compiled_by(rows, rows + 40), 0u) << rows;
  }
}

}  // namespace
}  // namespace heddle
