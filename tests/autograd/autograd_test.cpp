// backward(): what it means, histories that are cut, hooks and errors, on the reference device. grad() and vjp():
// grad_test.cpp. The derivatives themselves: gradcheck_test.cpp.
#include "heddle/autograd/autograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "heddle/core/functions/functions.h"
#include "tests/autograd/leaves.h"

namespace heddle::tests {
namespace {

// ---- backward

TEST(Backward, FillsLeavesAndAccumulates) {
  Tensor x = leaf({1, -2, 3});
  EXPECT_FALSE(x.grad().defined());
  backward(sum(x * x));
  EXPECT_EQ(x.grad().to_doubles(), (Values{2, -4, 6}));
  backward(sum(3 * x));
  EXPECT_EQ(x.grad().to_doubles(), (Values{5, -1, 9}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  backward(sum(x));
  EXPECT_EQ(x.grad().to_doubles(), (Values{1, 1, 1}));
}

TEST(Backward, SameGraphTwice) {
  Tensor x = leaf({2});
  const Tensor loss = sum(x * x * x);
  backward(loss);
  backward(loss);
  EXPECT_EQ(x.grad().to_doubles(), Values{24});
}

TEST(Backward, AfterObservation) {
  Tensor x = leaf({2, 3});
  const Tensor y = exp(x);
  const Tensor loss = sum(y * y);
  EXPECT_NEAR(loss.item(), std::exp(4) + std::exp(6), 1e-9);
  backward(loss);
  EXPECT_NEAR(x.grad().to_doubles()[1], 2 * std::exp(6), 1e-9);
}

TEST(Backward, CotangentForNonScalars) {
  Tensor x = leaf({1, 2, 3});
  backward(x * x, constant({1, 10, 100}));
  EXPECT_EQ(x.grad().to_doubles(), (Values{2, 40, 600}));
}

TEST(Backward, OneElementOfAnyRank) {
  Tensor x = leaf({3}, Shape{1, 1});
  backward(x * x);
  EXPECT_EQ(x.grad().to_doubles(), Values{6});
  EXPECT_EQ(x.grad().shape(), (Shape{1, 1}));
}

TEST(Backward, OfALeafItself) {
  Tensor x = leaf({3});
  backward(x);
  EXPECT_EQ(x.grad().to_doubles(), Values{1});
}

TEST(Backward, OnlyWhereRequired) {
  Tensor x = leaf({2}), frozen = constant({5});
  backward(sum(x * frozen));
  EXPECT_EQ(x.grad().to_doubles(), Values{5});
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_FALSE(x.grad().requires_grad());
}

TEST(Backward, LeavesWithOneCotangentHaveOwnGradients) {
  Tensor x = leaf({1}), y = leaf({2});
  backward(sum(x + y));
  Tensor gx = x.grad();
  gx.assign(full(Shape{1}, 9, DType::f64, &reference()));
  EXPECT_EQ(x.grad().to_doubles(), Values{9});
  EXPECT_EQ(y.grad().to_doubles(), Values{1});
}

TEST(Backward, CollectsThroughAssign) {
  Tensor x = leaf({2});
  {
    const NoGradScope no_grad;
    x.assign(x * 5.0);
  }
  EXPECT_TRUE(x.requires_grad());
  backward(sum(x * x));
  EXPECT_EQ(x.grad().to_doubles(), Values{20});
}

TEST(Backward, GradientDescentOnAParabola) {
  Tensor x = leaf({4});
  for (int i = 0; i < 40; ++i) {
    x.zero_grad();
    backward(sum((x - 1.5) * (x - 1.5)));
    const NoGradScope no_grad;
    x.assign(x - 0.2 * x.grad());
    eval_pending();
  }
  EXPECT_NEAR(x.item(), 1.5, 1e-6);
}

// ---- shapes of graphs

TEST(Graph, Diamonds) {
  Tensor x = leaf({1.1});
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;  // 2^60 paths: each node's rule must run once
  backward(sum(y));
  EXPECT_NEAR(x.grad().item(), 1, 1e-12);
}

TEST(Graph, LongChain) {
  Tensor x = leaf({1});
  Tensor y = x;
  const int length = 20000;
  for (int i = 0; i < length; ++i) y = y * 1.0001;
  backward(sum(y));
  EXPECT_NEAR(x.grad().item(), std::pow(1.0001, length), 1e-6);
}

TEST(Graph, VisitsOnlyWhatIsNeeded) {
  Tensor x = leaf({2}), w = leaf({3});
  const Tensor h = x * w;
  int calls = 0;
  Tensor aside = exp(x);
  aside.register_hook([&](const Tensor& g) {
    ++calls;
    return g;
  });
  const Tensor loss = sum(h * h) + sum(aside);
  EXPECT_EQ(grad(loss, w).item(), 2 * 6 * 2);
  EXPECT_EQ(calls, 0);  // aside does not lead to w
}

TEST(Graph, Broadcasting) {
  Tensor row = leaf({1, 2, 3}), scalar = leaf({2}, Shape{});
  const Tensor grid = Tensor::from_vector(Values{1, 2, 3, 4, 5, 6}, Shape{2, 3}, &reference());
  backward(sum(grid * row * scalar));
  EXPECT_EQ(row.grad().to_doubles(), (Values{10, 14, 18}));
  EXPECT_EQ(scalar.grad().item(), 5 + 14 + 27);
  EXPECT_EQ(scalar.grad().shape(), Shape{});
}

TEST(Graph, ViewsWithNegativeSteps) {
  Tensor x = leaf({0, 1, 2, 3, 4, 5, 6});
  const Tensor y = slice(x, 0, {-1, {}, -2});  // 6 4 2 0
  backward(sum(y * constant({1, 10, 100, 1000})));
  EXPECT_EQ(x.grad().to_doubles(), (Values{1000, 0, 100, 0, 10, 0, 1}));
}

TEST(Graph, EmptyTensors) {
  Tensor x = leaf({}, Shape{0, 3});
  backward(sum(x * x));
  EXPECT_EQ(x.grad().shape(), (Shape{0, 3}));
  Tensor y = leaf({1, 2, 3});
  backward(sum(slice(y, 0, {2, 2, 1})) + sum(y));
  EXPECT_EQ(y.grad().to_doubles(), (Values{1, 1, 1}));
}

// ---- corners

TEST(Corners, ConventionsOfPyTorch) {
  const auto slope = [](const std::function<Tensor(const Tensor&)>& f, double at) {
    const Tensor x = leaf({at});
    return grad(sum(f(x)), x).item();
  };
  EXPECT_EQ(slope([](const Tensor& x) { return relu(x); }, 0), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return abs(x); }, 0), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return sign(x); }, 3), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return floor(x); }, 0.5), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return sqrt(x); }, 0), INFINITY);
  EXPECT_EQ(slope([](const Tensor& x) { return pow(x, 0); }, 0), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return pow(x, 2); }, 0), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return clamp(x, -1, 1); }, 1), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return clamp(x, -1, 1); }, -1), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return clamp(x, -1, 1); }, 1.001), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return pow(0.0, x); }, 2), 0);
}

TEST(Corners, TiesAreShared) {
  Tensor x = leaf({1, 3, 3, 2, 3}), y = leaf({1, 0, 5, 2, 3});
  EXPECT_EQ(grad(max(x), x).to_doubles(), (Values{0, 1 / 3.0, 1 / 3.0, 0, 1 / 3.0}));
  const std::vector<Tensor> g = grad(sum(maximum(x, y)), {x, y});
  EXPECT_EQ(g[0].to_doubles(), (Values{0.5, 1, 0, 0.5, 0.5}));
  EXPECT_EQ(g[1].to_doubles(), (Values{0.5, 0, 1, 0.5, 0.5}));
}

TEST(Corners, PowerOfTensorsAtZero) {
  Tensor x = leaf({0, 0, 2}), y = leaf({0, 2, 0});
  const std::vector<Tensor> g = grad(sum(pow(x, y)), {x, y});
  EXPECT_EQ(g[0].to_doubles(), (Values{0, 0, 0}));
  EXPECT_NEAR(g[1].to_doubles()[2], std::log(2), 1e-12);
  EXPECT_EQ(g[1].to_doubles()[0], 0);
}

TEST(Corners, MaskedBranchesStayClean) {
  Tensor x = leaf({-1, 4});
  EXPECT_EQ(grad(sum(where(x > 0, sqrt(where(x > 0, x, 1)), 0)), x).to_doubles(), (Values{0, 0.25}));
}

// ---- histories that are cut

TEST(Cut, NoGradScope) {
  Tensor x = leaf({2});
  Tensor y;
  {
    const NoGradScope no_grad;
    y = x * x;
  }
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE((x * x).requires_grad());
  expect_error<GradError>([&] { backward(sum(y)); }, {"[backward]", "no path", "no_grad"});
}

TEST(Cut, Detach) {
  Tensor x = leaf({3});
  EXPECT_EQ(grad(sum(x * (x * x).detach()), x).item(), 9);
  EXPECT_EQ(grad(sum(x * stop_gradient(x)), x).item(), 3);
  EXPECT_FALSE(x.detach().requires_grad());
  expect_error<GradError>([&] { backward(sum(exp(x).detach())); }, {"no path", "detach"});
}

// ---- hooks

TEST(Hooks, OnALeafSeesTheCompleteGradient) {
  Tensor x = leaf({2});
  std::vector<double> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(g.item());
    return g * 0.5;
  });
  backward(sum(x * x) + sum(3 * x));
  EXPECT_EQ(seen, Values{7});
  EXPECT_EQ(x.grad().item(), 3.5);
}

TEST(Hooks, OnAnIntermediateChangesWhatFlowsOn) {
  Tensor x = leaf({2});
  Tensor h = x * x;
  h.register_hook([](const Tensor& g) { return g * 10; });
  h.register_hook([](const Tensor& g) { return g + 1; });
  backward(sum(3 * h));
  EXPECT_EQ(x.grad().item(), 31 * 4);
  EXPECT_FALSE(h.grad().defined());
}

TEST(Hooks, EmptyFunctionIsRefusedWhereItIsGiven) {
  Tensor x = leaf({2});
  EXPECT_THROW(x.register_hook({}), ValueError);
  backward(sum(x * x));
  EXPECT_EQ(x.grad().item(), 4);
}

TEST(Hooks, MayOnlyLook) {
  Tensor x = leaf({2});
  int calls = 0;
  x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  backward(sum(x * x));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().item(), 4);
}

TEST(Hooks, MustKeepTheShape) {
  Tensor x = leaf({2, 3});
  x.register_hook([](const Tensor& g) { return sum(g); });
  expect_error<GradError>([&] { backward(sum(x)); }, {"[hook]", "()", "(2)"});
}

TEST(Hooks, NeedAGradient) {
  EXPECT_THROW(constant({1}).register_hook([](const Tensor& g) { return g; }), GradError);
}

// ---- errors

TEST(Errors, NonScalarWithoutCotangent) {
  Tensor x = leaf({1, 2});
  expect_error<GradError>([&] { backward(x * x); }, {"[backward]", "cotangent", "(2)", "sum, mean"});
  expect_error<GradError>([&] { grad(x * x, x); }, {"[grad]", "cotangent", "(2)"});
}

TEST(Errors, CotangentDoesNotFit) {
  Tensor x = leaf({1, 2});
  expect_error<GradError>([&] { backward(x * x, constant({1, 2, 3})); }, {"cotangent (3) f64", "(2) f64"});
  expect_error<GradError>([&] { backward(x * x, ones(Shape{2}, DType::f32, &reference())); }, {"f32", "f64"});
  const std::vector<Tensor> two(2, constant({1, 2}));
  const Tensor y = x * x;
  expect_error<GradError>([&] { grad(std::span(&y, 1), std::span(&x, 1), two); }, {"1 outputs but 2 cotangents"});
}

TEST(Errors, Integers) {
  Tensor i = Tensor::from_vector(std::vector<int32_t>{1, 2}, Shape{2}, &reference());
  expect_error<GradError>([&] { i.set_requires_grad(); }, {"i32"});
  expect_error<GradError>([&] { backward(sum(i)); }, {"[backward]", "i64"});
  Tensor x = leaf({1, 2});
  expect_error<GradError>([&] { grad(sum(x), {x, i}); }, {"input 1", "i32"});
}

TEST(Errors, TheOpThatEndsThePathIsNamed) {
  if (eager_mode()) GTEST_SKIP() << "op by op, a value without a gradient forgets at once what it was made from";
  Tensor x = leaf({1, 2});
  expect_error<GradError>([&] { backward(sum(cast(x > 1.5, DType::f64))); }, {"no path", "'gt'", "truth value"});
  expect_error<GradError>([&] { backward(cast(argmax(x), DType::f64)); }, {"'argmax'", "integer index"});
}

TEST(Errors, InputWithoutRequiresGrad) {
  Tensor x = leaf({1}), y = constant({2});
  expect_error<GradError>([&] { grad(sum(x * y), {y}); }, {"input 0", "set_requires_grad"});
}

TEST(Errors, Undefined) {
  Tensor x = leaf({1});
  expect_error<GradError>([&] { backward(Tensor()); }, {"undefined"});
  expect_error<GradError>([&] { grad(sum(x), {Tensor()}); }, {"input 0", "undefined"});
}

TEST(Errors, ConstantsHaveNoPath) {
  expect_error<GradError>([&] { backward(sum(constant({1, 2}))); }, {"[backward]", "no path", "()"});
}

}  // namespace
}  // namespace heddle::tests
