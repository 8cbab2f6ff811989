// grad() and vjp(), which leave .grad() alone: several outputs and inputs, higher orders; on the reference device.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/op/primitives.h"
#include "tests/autograd/leaves.h"

namespace heddle::tests {
namespace {

TEST(Grad, LeavesTheGradFieldAlone) {
  Tensor x = leaf({3});
  EXPECT_EQ(grad(sum(x * x), x).item(), 6);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, IntermediatesAndLeavesTogether) {
  Tensor x = leaf({3});
  const Tensor h = x * x;
  const std::vector<Tensor> g = grad(sum(h * h), {x, h, x});
  EXPECT_EQ(g[0].item(), 4 * 27);
  EXPECT_EQ(g[1].item(), 18);
  EXPECT_EQ(g[2].item(), 4 * 27);
}

TEST(Grad, SeveralOutputsWithCotangents) {
  Tensor x = leaf({2});
  const std::vector<Tensor> outputs = {x * x, 3 * x};
  const std::vector<Tensor> cotangents = {constant({10}), Tensor()};
  EXPECT_EQ(grad(outputs, std::span(&x, 1), cotangents)[0].item(), 43);
}

TEST(Grad, Unused) {
  Tensor x = leaf({2}), other = leaf({1});
  const std::vector<Tensor> g = grad(sum(x * x), {x, other}, {}, false, true);
  EXPECT_TRUE(g[0].defined());
  EXPECT_FALSE(g[1].defined());
  expect_error<GradError>([&] { grad(sum(x * x), {x, other}); }, {"no path", "input 1", "allow_unused"});
}

TEST(Grad, ThirdOrder) {
  Tensor x = leaf({2});
  const Tensor y = sum(x * x * x * x);
  const Tensor first = grad(y, x, {}, true);
  const Tensor second = grad(sum(first), x, {}, true);
  const Tensor third = grad(sum(second), x, {}, true);
  EXPECT_EQ(first.item(), 32);
  EXPECT_EQ(second.item(), 48);
  EXPECT_EQ(third.item(), 48);
  EXPECT_EQ(grad(sum(third), x).item(), 24);
}

TEST(Grad, ThirdOrderOfATranscendental) {
  Tensor x = leaf({0.7});
  Tensor d = tanh(x);
  for (int i = 0; i < 3; ++i) d = grad(sum(d), x, {}, true);
  const double t = std::tanh(0.7);
  EXPECT_NEAR(d.item(), -2 + 8 * t * t - 6 * t * t * t * t, 1e-12);
}

TEST(Grad, BackwardThroughAGradient) {
  Tensor x = leaf({1, 2});
  const Tensor g = grad(sum(x * x * x), x, {}, true);
  backward(sum(g * g));  // a gradient penalty: d/dx 9 x^4 = 36 x^3
  EXPECT_EQ(x.grad().to_doubles(), (Values{36, 288}));
}

TEST(Grad, WithoutCreateGraphTheResultIsConstant) {
  Tensor x = leaf({2});
  const Tensor g = grad(sum(x * x * x), x);
  EXPECT_FALSE(g.requires_grad());
  expect_error<GradError>([&] { grad(sum(g), x); }, {"no path"});
}

TEST(Grad, CastsReturnToTheDtypeOfTheInput) {
  Tensor x = Tensor::from_vector(std::vector<float>{1, 2}, Shape{2}, &reference()).set_requires_grad();
  const Tensor g = grad(sum(cast(x, DType::f64) * constant({3, 4})), x);
  EXPECT_EQ(g.dtype(), DType::f32);
  EXPECT_EQ(g.to_doubles(), (Values{3, 4}));
}

// ---- the bare transform

TEST(Vjp, ReturnsUndefinedWithoutAPath) {
  Tensor x = leaf({2}), y = leaf({3});
  const Tensor out = x * x;
  const Tensor seed = constant({5});
  const std::vector<Tensor> inputs = {x, y};
  const std::vector<Tensor> g = vjp(std::span(&out, 1), inputs, std::span(&seed, 1));
  EXPECT_EQ(g[0].item(), 20);
  EXPECT_FALSE(g[1].defined());
}

TEST(Vjp, MatmulUsesTransposedProductsOnly) {
  if (eager_mode()) GTEST_SKIP() << "op by op, a gradient forgets at once what it was made from";
  const Tensor a = leaf(Values(6, 1), Shape{2, 3}), b = leaf(Values(12, 1), Shape{3, 4});
  const std::vector<Tensor> g = grad(matmul(a, b), {a, b}, ones(Shape{2, 4}, DType::f64, &reference()));
  for (const Tensor& t : g) {
    EXPECT_EQ(t.node()->op, &ops::matmul_op);
    EXPECT_EQ(t.node()->inputs.size(), 2u);
  }
  EXPECT_EQ(g[0].to_doubles(), Values(6, 4));
  EXPECT_EQ(g[1].to_doubles(), Values(12, 2));
}

}  // namespace
}  // namespace heddle::tests
