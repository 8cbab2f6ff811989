// Values that are handed over one after the other: what they are, what is freed, when assigns are made.
#include "heddle/core/graph/evaluate_in_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/compile/hand_over.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle {
namespace {

constexpr int64_t count = 1037;

class InOrder : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
  Tensor numbers() const {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 17) / 9 - 1);
    return Tensor::from_vector(values, Shape{count}, &device());
  }
};

double at(int64_t i) { return static_cast<double>(static_cast<float>(i % 17) / 9 - 1); }

TEST_P(InOrder, EachIsHandedOverAndFreed) {
  const Tensor x = numbers();
  const Tensor shared = exp(x), again = shared * shared;
  const Tensor held = shared + again;  // what the caller holds has a value at the end
  std::vector<Tensor> values{again + 1.0, sqrt(shared), again * x};
  std::vector<std::weak_ptr<Storage>> storages;
  std::vector<size_t> places;
  evaluate_in_order(std::move(values), [&](size_t place, const Tensor& value) {
    places.push_back(place);
    for (const std::weak_ptr<Storage>& before : storages) EXPECT_TRUE(before.expired()) << place;
    storages.push_back(value.node()->storage);
    const std::vector<float> found = value.to_vector<float>();
    for (int64_t i = 0; i < count; ++i) {
      const double e = std::exp(at(i)), expected = place == 0 ? e * e + 1 : place == 1 ? std::sqrt(e) : e * e * at(i);
      EXPECT_NEAR(found[static_cast<size_t>(i)], expected, 1e-5 * (1 + std::abs(expected))) << place << " " << i;
    }
  });
  EXPECT_EQ(places, (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(storages.back().expired());
  EXPECT_TRUE(held.node()->has_value());
  EXPECT_NEAR(held.to_vector<float>()[1], std::exp(at(1)) + std::exp(2 * at(1)), 1e-5);
}

// Values that come before read what was there before.
TEST_P(InOrder, AssignsAreMadeBehindAll) {
  Tensor x = numbers();
  const Tensor first = x * 2.0, second = first + x;
  x.assign(x + 10.0);
  std::vector<float> last;
  evaluate_in_order({first, second}, [&](size_t, const Tensor& value) { last = value.to_vector<float>(); });
  EXPECT_NEAR(last[5], 3 * at(5), 1e-6);
  EXPECT_NEAR(x.to_vector<float>()[5], at(5) + 10, 1e-5);
}

TEST_P(InOrder, WhatHasAValueAndNothingAtAll) {
  const Tensor x = numbers(), empty = zeros(Shape{0}, DType::f32, &device()) * 2.0, pending = x + 1.0;
  size_t made = 0;
  evaluate_in_order({x, empty}, [&](size_t, const Tensor& value) { made += value.to_vector<float>().size() + 1; });
  EXPECT_EQ(made, static_cast<size_t>(count) + 2);
  EXPECT_TRUE(pending.node()->has_value());
  const Tensor more = x + 2.0;
  evaluate_in_order({}, [](size_t, const Tensor&) { FAIL(); });
  EXPECT_TRUE(more.node()->has_value());
}

TEST_P(InOrder, AnErrorEndsIt) {
  const Tensor x = numbers(), left = x * 3.0;
  size_t made = 0;
  const auto fail = [&](size_t, const Tensor&) {
    ++made;
    throw ValueError("enough");
  };
  tests::expect_error<ValueError>([&] { evaluate_in_order({x + 1.0, x + 2.0, x + 3.0}, fail); }, {"enough"});
  EXPECT_EQ(made, 1u);
  EXPECT_NEAR(left.to_vector<float>()[1], 3 * at(1), 1e-5);
}

// What a compiled function hands over, recorded and replayed: values of this call's arguments and states, each freed
// before the next one comes.
TEST_P(InOrder, CompiledFunctionsHandOverWhatTheyMake) {
  Tensor state = numbers();
  std::vector<std::weak_ptr<Storage>> storages;
  std::vector<std::vector<float>> found;
  const auto made = [&](size_t place, const Tensor& value) {
    EXPECT_EQ(place, found.size());
    for (const std::weak_ptr<Storage>& before : storages) EXPECT_TRUE(before.expired()) << place;
    storages.push_back(value.node()->storage);
    found.push_back(value.to_vector<float>());
  };
  const auto compiled = compile([&](const Tensor& x, double factor) {
    const Tensor shared = exp(x) * factor, first = shared + state;
    std::vector<Tensor> all{first, sqrt(shared), first * x, sum(shared)};
    state.assign(state + 1.0);
    return all;
  });
  for (int call = 0; call < 7; ++call) {
    const double factor = call < 5 ? 2 : 3, shift = 0.125 * call;
    const Tensor x = (numbers() + shift).detach();
    found.clear(), storages.clear();
    const HandOverScope scope(made);
    const std::vector<Tensor> results = compiled(x, factor);
    EXPECT_FALSE(results[0].defined() || results[1].defined() || results[2].defined());
    ASSERT_EQ(found.size(), 3u);
    double total = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double shared = std::exp(at(i) + shift) * factor, first = shared + at(i) + call;
      const double expected[] = {first, std::sqrt(shared), first * (at(i) + shift)};
      total += shared;
      for (size_t place = 0; place < 3; ++place)
        EXPECT_NEAR(found[place][static_cast<size_t>(i)], expected[place], 1e-4 * (1 + std::abs(expected[place])))
            << call << " " << place << " " << i;
    }
    EXPECT_NEAR(results[3].item(), total, 1e-4 * total) << call;
  }
  EXPECT_NEAR(state.to_vector<float>()[3], at(3) + 7, 1e-5);
  if (device().caps().target != Target::none) EXPECT_EQ(compiled.stats().replayed, 3u) << compiled.stats().refusal;
}

// A failure of whoever takes a value ends the call; the next one goes on from the states as they are.
TEST_P(InOrder, AnErrorEndsACompiledCall) {
  bool fails = false;
  size_t taken = 0;
  const auto compiled = compile([&](const Tensor& x) { return std::vector<Tensor>{x + 1.0, x * 2.0, sum(x)}; });
  const auto take = [&](size_t, const Tensor&) {
    ++taken;
    if (fails) throw ValueError("enough");
  };
  const Tensor x = numbers();
  for (int call = 0; call < 6; ++call) {
    fails = call == 1 || call == 4;
    taken = 0;
    const HandOverScope scope(take);
    if (fails)
      tests::expect_error<ValueError>([&] { (void)compiled(x); }, {"enough"});
    else
      EXPECT_NEAR(compiled(x).back().item(), sum(x).item(), 1e-2);
    EXPECT_EQ(taken, fails ? 1u : 2u) << call;
  }
  const auto outer = compile([&](const Tensor& y) {
    const HandOverScope scope(take);
    return compiled(y).back();
  });
  tests::expect_error<ValueError>([&] { (void)outer(x); }, {"not within another compiled function"});
}

INSTANTIATE_TEST_SUITE_P(Devices, InOrder, testing::ValuesIn(test::value_devices()), tests::backend_test_name);

}  // namespace
}  // namespace heddle
