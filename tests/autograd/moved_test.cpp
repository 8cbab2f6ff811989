// Gradients through Tensor::to(device): written-out derivatives of functions that are computed on two devices.
#include <gtest/gtest.h>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/node.h"
#include "tests/support/device_test.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {
namespace {

Tensor floats(const std::vector<float>& values, const Shape& shape, DeviceContext& where) {
  return Tensor::from_vector(values, shape, &where);
}
std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

class Moved : public DeviceTest {
 protected:
  DeviceContext& other() const { return device(); }
  // The sum of x^3 with the square on the device, and one factor taken through it twice.
  Tensor cubes(const Tensor& x) const {
    const Tensor there = x.to(other());
    return sum((there * there).to(reference()) * x);
  }
};
HEDDLE_DEVICE_TESTS(Moved);

TEST_P(Moved, GradientsComeBack) {
  Tensor w = floats({1, -2, 3}, {3}, reference()), b = floats({4, 5, 6}, {3}, other());
  w.set_requires_grad();
  b.set_requires_grad();
  const Tensor moved = (w * 2).to(other());
  EXPECT_EQ(&moved.device(), &other());
  EXPECT_TRUE(moved.requires_grad());
  EXPECT_FALSE(moved.is_leaf());
  EXPECT_EQ(values(moved), (std::vector<float>{2, -4, 6}));
  backward(sum(moved * moved * b));  // 4 w^2 b
  EXPECT_EQ(&w.grad().device(), &reference());
  EXPECT_EQ(&b.grad().device(), &other());
  EXPECT_EQ(values(w.grad()), (std::vector<float>{32, -80, 144}));
  EXPECT_EQ(values(b.grad()), (std::vector<float>{4, 16, 36}));
  backward(sum(w.to(other()).to(reference())));  // there and back; gradients add up
  EXPECT_EQ(values(w.grad()), (std::vector<float>{33, -79, 145}));
}

TEST_P(Moved, ALeafMayMoveMoreThanOnce) {
  Tensor w = floats({1, 2}, {2}, reference());
  w.set_requires_grad();
  backward(sum(w.to(other()) * 3 + w.to(other()) * w.to(other())));
  EXPECT_EQ(values(w.grad()), (std::vector<float>{5, 7}));
}

TEST_P(Moved, HalfPrecisionEmptyAndScalar) {
  Tensor half = floats({0.5f, 2}, {2}, reference()).to(DType::f16);
  half.set_requires_grad();
  backward(sum(square(half.to(other()))));
  EXPECT_EQ(half.grad().dtype(), DType::f16);
  EXPECT_EQ(values(half.grad()), (std::vector<float>{1, 4}));
  Tensor empty = zeros({0, 3}, DType::f32, &reference()), scalar = floats({3}, {}, reference());
  empty.set_requires_grad();
  scalar.set_requires_grad();
  backward(sum(empty.to(other())) + square(scalar.to(other())));
  EXPECT_EQ(empty.grad().shape(), (Shape{0, 3}));
  EXPECT_EQ(scalar.grad().item(), 6);
}

TEST_P(Moved, HigherOrderAndForwardMode) {
  const auto f = [&](const Tensor& x) { return cubes(x); };
  const Tensor x = floats({1, -2, 3}, {3}, reference()), v = floats({1, 10, 100}, {3}, reference());
  EXPECT_EQ(values(grad(f)(x)), (std::vector<float>{3, 12, 27}));
  const auto second = grad([&](const Tensor& at) { return sum(grad(f)(at) * v); });
  EXPECT_EQ(values(second(x)), (std::vector<float>{6, -120, 1800}));
  EXPECT_EQ(values(hvp(f, x, v)), (std::vector<float>{6, -120, 1800}));
  const auto third = grad([&](const Tensor& at) { return sum(second(at)); });
  EXPECT_EQ(values(third(x)), (std::vector<float>{6, 60, 600}));
  const auto [y, tangent] = jvp(f, x, v);
  EXPECT_EQ(y.item(), 1 - 8 + 27);
  EXPECT_EQ(tangent.item(), 3 + 120 + 2700);
  EXPECT_EQ(&tangent.device(), &reference());
  Tensor w = floats({2}, {1}, reference());
  w.set_requires_grad();
  const Tensor g = grad(cubes(w), w, {}, true);
  backward(sum(g * g));  // (3 w^2)^2
  EXPECT_EQ(values(w.grad()), (std::vector<float>{36 * 8}));
}

TEST_P(Moved, NothingIsRecordedWhereNobodyAsks) {
  Tensor w = floats({1, 2}, {2}, reference());
  EXPECT_FALSE(w.to(other()).requires_grad());
  w.set_requires_grad();
  EXPECT_FALSE(w.detach().to(other()).requires_grad());
  EXPECT_EQ(w.to(reference()).node(), w.node());
  {
    const NoGradScope no_grad;
    EXPECT_FALSE(w.to(other()).requires_grad());
  }
  Tensor there = w.to(other());
  EXPECT_FALSE(there.detach().requires_grad());
  EXPECT_THROW(there.assign(there * 2), GradError);
  EXPECT_THROW(there.set_requires_grad(), GradError);
}

TEST_P(Moved, InsideACheckpointAndACompiledFunction) {
  Tensor w = floats({1, 2, 3}, {3}, reference());
  w.set_requires_grad();
  backward(checkpoint([&](const Tensor& x) { return cubes(square(x)); }, w));  // 6 w^5
  EXPECT_EQ(values(w.grad()), (std::vector<float>{6, 192, 1458}));
  auto step = compile([&](const Tensor& x) { return grad([&](const Tensor& at) { return cubes(at); })(x); });
  for (const float at : {1.0f, 2.0f, 3.0f}) {
    EXPECT_EQ(values(step(floats({at}, {1}, reference()))), (std::vector<float>{3 * at * at}));
  }
}

TEST_P(Moved, WhatCannotLookRefuses) {
  const Tensor x = floats({1, 2}, {2}, reference());
  EXPECT_THROW(vmap([&](const Tensor& one) { return square(one.to(other())); })(x), ValueError);
  EXPECT_THROW(jacrev([&](const Tensor& at) { return square(at.to(other())); })(x), ValueError);
}

// The null device checks what is asked of it and reads zeros.
TEST(MovedToNull, GradientsComeBack) {
  DeviceContext& null = device("null:0");
  Tensor w = floats({1, 2}, {2}, null);
  w.set_requires_grad();
  Tensor v = floats({3, 4}, {2}, reference());
  v.set_requires_grad();
  backward(sum(square(w * 2).to(reference()) + v));
  EXPECT_EQ(&w.grad().device(), &null);
  EXPECT_EQ(w.grad().shape(), (Shape{2}));
  w.grad().to_bytes();
  EXPECT_EQ(values(v.grad()), (std::vector<float>{1, 1}));
  backward(sum(square(v.to(null))));
  EXPECT_EQ(&v.grad().device(), &reference());
}

}  // namespace
}  // namespace heddle::tests
