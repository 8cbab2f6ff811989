// Tensors end to end on the reference device: making, observing, assigning, leaves and gradients' state, eager mode,
// random draws.
#include "heddle/core/graph/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/op/primitives.h"
#include "tests/support/reference_device.h"
#include "tests/unit/reference_tensors.h"

namespace heddle {
namespace {

using test::floats;
using tests::reference;

template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    const std::string text = e.what();  // without the place, which place_test.cpp looks at
    return text.substr(0, text.find(" (tensor_test.cpp:"));
  }
  return "nothing of that type was thrown";
}

TEST(Tensor, HostRoundTrip) {
  const Tensor t = floats({1, -2.5f, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(t.shape(), (Shape{2, 3}));
  EXPECT_EQ(t.dtype(), DType::f32);
  EXPECT_EQ(t.device().id(), "reference:0");
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, -2.5f, 3, 4, 5, 6}));
  EXPECT_EQ(t.dim(-1), 3);
  const std::vector<int64_t> big{INT64_MIN, -1, INT64_MAX};
  const Tensor wide = Tensor::from_vector(big, {3}, &reference());
  const std::vector<uint8_t> bytes = (wide + 0).to_bytes();
  EXPECT_EQ(std::memcmp(bytes.data(), big.data(), 24), 0);
  EXPECT_TRUE(Tensor::from_host(std::span<const float>(), Shape{0, 3}, &reference()).to_vector<float>().empty());
}

TEST(Tensor, HalfPatternsAreKept) {
  const uint16_t patterns[] = {0x3c00, 0xfc01, 0x0001, 0x7bff};
  const Tensor t = Tensor::from_bytes(patterns, 4, DType::f16, {4}, &reference());
  const std::vector<uint8_t> bytes = t.to_bytes();
  EXPECT_EQ(std::memcmp(bytes.data(), patterns, 8), 0);
  EXPECT_EQ(t.to_doubles()[3], 65504);
}

TEST(Tensor, ViewsAreReadThroughTheirStrides) {
  const Tensor t = arange(0, 24, 1, DType::i32, &reference());
  const Tensor m = reshape(t, {2, 3, 4});
  eval({m});
  const Tensor v = slice(flip(transpose(m), {0}), -1, Slice{1, {}, 1});
  EXPECT_EQ(v.shape(), (Shape{2, 4, 2}));
  EXPECT_EQ(v.to_vector<int>(), (std::vector<int>{16, 20, 17, 21, 18, 22, 19, 23, 4, 8, 5, 9, 6, 10, 7, 11}));
}

TEST(Tensor, Item) {
  EXPECT_EQ(full({1, 1}, 2.5, DType::f32, &reference()).item(), 2.5);
  EXPECT_EQ(Tensor::host_scalar(0.125f, &reference()).item(), 0.125);
  EXPECT_EQ((Tensor::host_scalar(0.5f, &reference()) * 3).item(), 1.5);
  EXPECT_EQ(error_of<ShapeError>([] {
              floats({1, 2}, {2}).item();
            }),
            "[item] needs exactly one element, but the shape is (2); reduce it, or use to_vector()");
}

TEST(Tensor, Printing) {
  EXPECT_EQ(floats({1, 2, 3, 4.5f}, {2, 2}).str(), "tensor([[1, 2], [3, 4.5]], f32, reference:0)");
  EXPECT_EQ((floats({1, -1}, {2}) > 0).str(), "tensor([true, false], bool, reference:0)");
  EXPECT_EQ(full({}, 7, DType::i64, &reference()).str(), "tensor(7, i64, reference:0)");
  EXPECT_EQ(zeros({2, 0}, DType::f32, &reference()).str(), "tensor([[], []], f32, reference:0)");
  EXPECT_EQ(arange(0, 2000, 1, DType::i32, &reference()).str(),
            "tensor([0, 1, 2, ..., 1997, 1998, 1999], i32, reference:0)");
  EXPECT_EQ(Tensor().str(), "tensor(undefined)");
}

TEST(Tensor, WhatTheHostCannotHoldIsATypedError) {
  EXPECT_THROW(zeros({int64_t{1} << 62}, DType::f32, &reference()).to_bytes(), OutOfMemory);
  EXPECT_EQ(sum(ones({3}, DType::f32, &reference())).item(), 3);
}

TEST(Tensor, EmptyHandlesAreRefused) {
  const Tensor empty;
  EXPECT_FALSE(empty.defined());
  EXPECT_EQ(error_of<ValueError>([&] { empty.shape(); }),
            "[tensor] this handle is empty: it was default-constructed or moved from, or it is the grad() of a tensor "
            "that no backward() has reached since zero_grad()");
  EXPECT_THROW(exp(empty), ValueError);
}

TEST(Tensor, CopiesShareTheValue) {
  Tensor a = floats({1, 2}, {2});
  const Tensor b = a;
  const Tensor before = a * 10;
  a.assign(a + 1);
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{10, 20}));
  a.assign(a);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(Tensor, AssignManyTimes) {
  Tensor w = floats({0, 0, 0}, {3});
  for (int i = 0; i < 50; ++i) {
    w.assign(w + 1);
    if (i % 7 == 0) eval({w});
  }
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{50, 50, 50}));
}

TEST(Tensor, AssignSwapsThroughTheOldValues) {
  Tensor a = floats({1, 2}, {2}), b = floats({3, 4}, {2});
  const Tensor old_a = a + 0, old_b = b + 0;
  a.assign(old_b);
  b.assign(old_a);
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Tensor, AssignRefusesOtherKinds) {
  Tensor a = floats({1, 2}, {2});
  EXPECT_EQ(error_of<ShapeError>([&] { a.assign(floats({1}, {1})); }), "[assign] the tensor is (2), the value (1)");
  EXPECT_EQ(error_of<DTypeError>([&] { a.assign(cast(a, DType::f16)); }),
            "[assign] the tensor is f32, the value f16; cast the value");
}

TEST(Tensor, LeavesAndHistory) {
  Tensor w = floats({1, 2}, {2});
  EXPECT_TRUE(w.is_leaf());
  EXPECT_FALSE(w.requires_grad());
  w.set_requires_grad();
  EXPECT_TRUE(w.requires_grad());
  const Tensor y = w * 2;
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_FALSE((w > 1).requires_grad());
  EXPECT_FALSE(cast(w, DType::i32).requires_grad());
  EXPECT_FALSE(stop_gradient(w).requires_grad());
  EXPECT_FALSE(w.detach().requires_grad());
  EXPECT_FALSE(y.detach().requires_grad());
  EXPECT_EQ(y.detach().to_vector<float>(), (std::vector<float>{2, 4}));
  {
    const NoGradScope scope;
    EXPECT_FALSE((w * 2).requires_grad());
  }
  EXPECT_TRUE(grad_mode());
  EXPECT_EQ(error_of<GradError>([&] { Tensor(y).set_requires_grad(); }),
            "[set_requires_grad] this (2) tensor is the result of 'mul' on tensors with gradients; detach() it first");
  EXPECT_EQ(error_of<GradError>([] { zeros({2}, DType::i32, &reference()).set_requires_grad(); }),
            "[set_requires_grad] only floating tensors have gradients; this one is (2) i32");
  w.set_requires_grad(false);
  EXPECT_FALSE((w * 2).requires_grad());
}

TEST(Tensor, AssignedParametersStayLeaves) {
  Tensor w = floats({1, 2}, {2});
  w.set_requires_grad();
  const Tensor loss = sum(w * w);
  w.assign(w - 0.5 * w);
  EXPECT_TRUE(w.requires_grad());
  EXPECT_TRUE(w.is_leaf());
  EXPECT_EQ(w.node()->grad_target.lock(), w.impl());
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{0.5f, 1}));
  Tensor statistic = floats({0, 0}, {2});
  statistic.assign(w * 3);
  EXPECT_FALSE(statistic.requires_grad());
}

TEST(Tensor, EachTensorCollectsForItself) {
  Tensor a = floats({1, 2}, {2});
  Tensor b(a.node());
  a.set_requires_grad();
  b.set_requires_grad();
  EXPECT_NE(a.node(), b.node());
  EXPECT_EQ(a.node()->grad_target.lock(), a.impl());
  EXPECT_EQ(b.node()->grad_target.lock(), b.impl());
  Tensor computed = zeros({3}, DType::f32, &reference()) + 1;
  computed.set_requires_grad();
  EXPECT_EQ(computed.node()->op, &ops::leaf_op);
  EXPECT_EQ(computed.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(Tensor, GradientSlot) {
  Tensor w = floats({1, 2}, {2});
  EXPECT_FALSE(w.grad().defined());
  w.set_grad(floats({5, 6}, {2}));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{5, 6}));
  EXPECT_THROW(w.set_grad(floats({5}, {1})), ShapeError);
  w.zero_grad();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_THROW(w.register_hook([](const Tensor& g) { return g; }), GradError);
}

TEST(Tensor, MovesBetweenDevices) {
  const Tensor a = floats({1, 2, 3}, {3});
  EXPECT_EQ(a.to(reference()).node(), a.node());
  const Tensor there = a.to("null:0");
  EXPECT_EQ(there.device().id(), "null:0");
  EXPECT_EQ(error_of<ValueError>([&] { a + there; }),
            "[add] tensors live on different devices: (3) on reference:0, (3) on null:0; move one with to()");
  Tensor w = floats({1}, {1});
  w.set_requires_grad();
  EXPECT_TRUE(w.to("null:0").requires_grad());
  EXPECT_EQ(a.to(DType::i32).dtype(), DType::i32);
}

TEST(Tensor, EagerAndLazyAgree) {
  const Tensor x = floats({0.5f, -1, 2}, {3});
  const auto f = [&] { return sum(tanh(x * 2) + x); };
  const double lazy = f().item();
  const EagerScope eager;
  EXPECT_TRUE(eager_mode());
  const Tensor y = f();
  EXPECT_TRUE(y.node()->has_value());
  EXPECT_EQ(y.item(), lazy);
}

TEST(Tensor, LongChainsAreEvaluatedAndFreedWithoutRecursion) {
  Tensor x = floats({0.5f}, {1});
  x.set_requires_grad();
  Tensor y = x;
  std::weak_ptr<Node> first;
  for (int i = 0; i < 200000; ++i) {
    y = y + 1;
    if (i == 0) first = y.node();
  }
  EXPECT_EQ(y.item(), 200000.5);
  EXPECT_FALSE(first.expired()) << "the history is kept for backward()";
  y = Tensor();
  EXPECT_TRUE(first.expired());
}

TEST(Tensor, HistoryIsFreed) {
  Tensor x = floats({1, 2}, {2});
  const Tensor y = x * 2 + 1;
  std::weak_ptr<Node> inner = y.node()->inputs[0];
  eval({y});
  EXPECT_TRUE(inner.expired());
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5}));
}

// ---- random numbers

TEST(Random, DrawsArePhilox) {
  Generator g{0x0000000200000001ull, 0x0000000400000003ull};
  const Tensor u = uniform({2, 5}, 0, 1, &reference(), &g);
  EXPECT_EQ(g.offset, 0x0000000400000004ull);
  const std::vector<float> values = u.to_vector<float>();
  for (size_t n = 0; n < values.size(); ++n) EXPECT_EQ(values[n], philox_uniform({1, 2, 3, 4}, n));
}

TEST(Random, SeedsRepeatAndDrawsDiffer) {
  manual_seed(7);
  const std::vector<float> first = uniform({16}, 0, 1, &reference()).to_vector<float>();
  const std::vector<float> second = uniform({16}, 0, 1, &reference()).to_vector<float>();
  manual_seed(7);
  EXPECT_EQ((uniform({16}, 0, 1, &reference()).to_vector<float>()), first);
  EXPECT_NE(first, second);
}

TEST(Random, Moments) {
  Generator g{3, 0};
  const Tensor n = normal({50000}, 2, 3, &reference(), &g);
  EXPECT_NEAR(mean(n).item(), 2, 0.05);
  EXPECT_NEAR(var(n).item(), 9, 0.2);
  const Tensor b = bernoulli({50000}, 0.3, &reference(), &g);
  EXPECT_NEAR(mean(b).item(), 0.3, 0.01);
  EXPECT_EQ(b.dtype(), DType::f32);
  const Tensor u = uniform({50000}, -2, 6, &reference(), &g);
  EXPECT_NEAR(mean(u).item(), 2, 0.05);
  EXPECT_GE(min(u).item(), -2);
  EXPECT_LT(max(u).item(), 6);
}

TEST(Random, DropoutKeepsTheMean) {
  Generator g{3, 0};
  const Tensor x = ones({20000}, DType::f32, &reference());
  const std::vector<float> y = dropout(x, 0.25, true, &g).to_vector<float>();
  int kept = 0;
  for (float v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0f / 3) < 1e-6f);
    kept += v != 0;
  }
  EXPECT_NEAR(kept / 20000.0, 0.75, 0.02);
  EXPECT_EQ(dropout(x, 0.25, false).node(), x.node());
  EXPECT_EQ(sum(dropout(x, 1, true, &g)).item(), 0);
}

}  // namespace
}  // namespace heddle
