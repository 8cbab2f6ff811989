// The guard against NaN and infinity, on every device: which operation it names, what it lets pass, and that nothing is
// updated by a step that fails.
#include "heddle/core/graph/number_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/nn/nn.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

class NumberGuard : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() const { return device(GetParam()); }
  Tensor vector(const std::vector<float>& values) const {
    return Tensor::from_vector(values, {static_cast<int64_t>(values.size())}, &dev());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, NumberGuard, testing::ValuesIn(test::value_devices()), tests::device_test_name);

std::string line(unsigned number) { return "number_guard_test.cpp:" + std::to_string(number); }

template <class F>
std::optional<NumericFault> fault_of(const F& f, std::string* text = nullptr) {
  const NumberGuardScope guard;
  try {
    f();
  } catch (const NumericError& e) {
    if (text) *text = e.what();
    return e.fault();
  }
  return std::nullopt;
}

TEST_P(NumberGuard, NamesTheFirstOperationInsideOneFusedKernel) {
  const Tensor x = vector({1, 4, -1, 9, -4, 0.25f});
  std::string text;
  Tensor y;
  const auto fault = fault_of(
      [&] {
        const Tensor shifted = x * 2 + 1;
        const Tensor root = sqrt(shifted);
        y = exp(root) * 3 - root;
        y.to_vector<float>();
      },
      &text);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "sqrt");
  EXPECT_EQ(fault->shape, "(6)");
  EXPECT_EQ(fault->nan, 2u);
  EXPECT_EQ(fault->inf, 0u);
  EXPECT_EQ(fault->count, 6u);
  EXPECT_EQ(fault->first, 2u);
  EXPECT_EQ(fault->place, line(__LINE__ - 12));
  EXPECT_EQ(text,
            "[check_numbers] 'sqrt' (6) f32 made 2 NaN of 6 elements, the first at [2]; its inputs: add (6) f32 in "
            "[-7, 19] (" +
                fault->place + ")");
  // Without the guard the value is there, as it is.
  const std::vector<float> values = y.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[2]) && std::isfinite(values[0]));
}

TEST_P(NumberGuard, CountsInfinitiesAndFindsOverflow) {
  const Tensor x = vector({1, 100, 2, 200});
  const auto fault = fault_of([&] { (exp(x) + 1).to_vector<float>(); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "exp");
  EXPECT_EQ(fault->inf, 2u);
  EXPECT_EQ(fault->nan, 0u);
  EXPECT_EQ(fault->first, 1u);
  const auto half = fault_of([&] { (cast(vector({300, 60000}), DType::f16) * 2).to_vector<float>(); });
  ASSERT_TRUE(half);
  EXPECT_EQ(half->op, "mul");
  EXPECT_EQ(half->first, 1u);
}

TEST_P(NumberGuard, OfSeveralTheFirstThatWasRecorded) {
  const Tensor x = vector({-1, 2});
  const auto fault = fault_of([&] {
    const Tensor second_used = log(x);
    const Tensor first_used = sqrt(x);
    eval({first_used * 2, second_used * 3});
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "log");
}

TEST_P(NumberGuard, WhatIsMaskedAwayOrCameInInfiniteIsNoFault) {
  const Tensor x = vector({-1, 2, 3, 0});
  // Through a variable: what an expression's own handles hold while it is looked at counts as a result.
  EXPECT_FALSE(fault_of([&] {
    const Tensor masked = where(x > 0.0, log(x), 0.0);
    masked.to_vector<float>();
  }));
  const Tensor mask = vector({0, -inf, 0, 0});
  EXPECT_FALSE(fault_of([&] { softmax(x + mask).to_vector<float>(); }));
  EXPECT_FALSE(fault_of([&] { (mask * 2).to_vector<float>(); }));
  EXPECT_FALSE(fault_of([&] { full({3}, -inf, DType::f32, &dev()).to_vector<float>(); }));
  EXPECT_FALSE(fault_of([&] { (cast(x, DType::i32) + 1).to_vector<int>(); }));
  // A row that is masked whole: a NaN from infinities.
  const auto fault = fault_of([&] { softmax(vector({-inf, -inf}) * 1.5).to_vector<float>(); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "softmax");
  // The masked logarithm is not blamed for what another operation did.
  const auto other = fault_of([&] {
    const Tensor both = where(x > 0.0, log(x), 0.0) + sqrt(x - 1);
    both.to_vector<float>();
  });
  ASSERT_TRUE(other);
  EXPECT_EQ(other->op, "sqrt");
}

TEST_P(NumberGuard, ANaNThatCameInIsThatTensors) {
  const Tensor data = vector({1, NAN, 3});
  std::string text;
  const auto fault = fault_of([&] { (data * 2 + 1).to_vector<float>(); }, &text);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "leaf");
  EXPECT_EQ(fault->first, 1u);
  EXPECT_TRUE(
      text.starts_with("[check_numbers] a tensor (3) f32 that nothing of this step computes has 1 NaN of 3 elements, "
                       "the first at [1] ("))
      << text;
}

TEST_P(NumberGuard, GradientsNameTheOperationTheyAreTheGradientOf) {
  Tensor w = vector({0, 4});
  w.set_requires_grad();
  std::string text;
  const auto fault = fault_of(
      [&] {
        const Tensor loss = sum(sqrt(w));
        backward(loss);
        w.grad().to_vector<float>();
      },
      &text);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->place, line(__LINE__ - 6) + " (backward)") << text;
  EXPECT_EQ(fault->inf, 1u);
}

TEST_P(NumberGuard, AStepThatFailsUpdatesNothing) {
  Tensor w = vector({1, 2});
  w.set_requires_grad();
  eval({w});
  nn::SGD sgd({w}, {.lr = 1});
  const auto step = [&](const Tensor& x) {
    const Tensor loss = sum(log(w * x));
    backward(loss);
    sgd.step();
    sgd.zero_grad();
  };
  EXPECT_FALSE(fault_of([&] { step(vector({1, 1})); }));
  const std::vector<float> good = w.to_vector<float>();
  EXPECT_EQ(good, (std::vector<float>{0, 1.5f}));
  const NodePtr kept = w.node();
  const auto fault = fault_of([&] { step(vector({1, 1})); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(read_value(*kept).at(1), 1.5);  // the old value is still in its memory
}

TEST_P(NumberGuard, CompiledFunctionsAreCheckedAtEveryCall) {
  auto f = compile([](const Tensor& x) { return log(x) * 2; });
  for (int i = 0; i < 4; ++i) f(vector({1, 2}));
  {
    const NumberGuardScope guard;
    EXPECT_EQ(f(vector({1, 1})).to_vector<float>(), (std::vector<float>{0, 0}));
  }
  const auto fault = fault_of([&] { f(vector({1, -1})); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "log");
  EXPECT_TRUE(std::isnan(f(vector({1, -1})).to_vector<float>()[1]));
}

TEST_P(NumberGuard, MatricesRandomNumbersAndEagerMode) {
  const Tensor a = Tensor::from_vector(std::vector<float>(12, 1e30f), {3, 4}, &dev());
  const auto fault = fault_of([&] { relu(matmul(a, transpose(a))).to_vector<float>(); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->op, "matmul");
  EXPECT_EQ(fault->inf, 9u);
  EXPECT_FALSE(fault_of([&] { dropout(a, 0.5).to_vector<float>(); }));
  const auto eager = fault_of([&] {
    const EagerScope scope;
    log(vector({-1}));
  });
  ASSERT_TRUE(eager);
  EXPECT_EQ(eager->op, "log");
}

TEST(NumberGuardFlag, ScopeAndProcess) {
  EXPECT_FALSE(number_guard());
  set_number_guard(true);
  EXPECT_TRUE(number_guard());
  {
    const NumberGuardScope off(false);
    EXPECT_FALSE(number_guard());
    const NumberGuardScope on;
    EXPECT_TRUE(number_guard());
  }
  set_number_guard(false);
  EXPECT_FALSE(number_guard());
}

}  // namespace
}  // namespace heddle
