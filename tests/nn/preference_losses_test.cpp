// Losses of pairs against PyTorch in double precision (preference_losses_values.py), log-probabilities against softmax.
#include "heddle/nn/preference_losses.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/nn/linear_cross_entropy.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;

void expect_close(const Tensor& found, const Json& expected, const char* what) {
  const Values all = found.to_doubles(), wanted = expected.get<Values>();
  ASSERT_EQ(all.size(), wanted.size()) << what;
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_NEAR(all[i], wanted[i], 2e-5 * (1e-3 + std::abs(wanted[i]))) << what << " at " << i;
}

class PreferenceLosses : public testing::TestWithParam<std::string> {
 protected:
  PreferenceLosses() { std::ifstream(HEDDLE_SOURCE_DIR "/tests/nn/preference_losses_values.json") >> recorded; }
  Tensor input(size_t number, double share = 1) const {
    Values values = recorded["inputs"][number].get<Values>();
    for (double& value : values) value *= share;
    const auto count = static_cast<int64_t>(values.size());
    return f32(values, {count}, device(GetParam())).set_requires_grad();
  }
  Json recorded;
};

TEST_P(PreferenceLosses, DpoIsThePapers) {
  for (const Json& c : recorded["dpo"]) {
    SCOPED_TRACE(c["beta"].dump());
    const Tensor chosen = input(0), rejected = input(1);
    nn::DpoOptions options{.beta = c["beta"], .label_smoothing = c["smoothing"], .reduction = Reduction::none};
    expect_close(nn::dpo_loss(chosen, rejected, input(2), input(3), options), c["losses"], "losses");
    options.reduction = Reduction::mean;
    backward(nn::dpo_loss(chosen, rejected, input(2).detach(), input(3).detach(), options));
    expect_close(chosen.grad(), c["chosen"], "chosen");
    expect_close(rejected.grad(), c["rejected"], "rejected");
  }
}

TEST_P(PreferenceLosses, OrpoIsThePapers) {
  for (const Json& c : recorded["orpo"]) {
    SCOPED_TRACE(c["weight"].dump());
    const Tensor chosen = input(0, 1.0 / 4), rejected = input(1, 1.0 / 5);
    nn::OrpoOptions options{.lambda = c["weight"], .reduction = Reduction::none};
    expect_close(nn::orpo_loss(chosen, rejected, options), c["losses"], "losses");
    options.reduction = Reduction::mean;
    backward(nn::orpo_loss(chosen, rejected, options));
    expect_close(chosen.grad(), c["chosen"], "chosen");
    expect_close(rejected.grad(), c["rejected"], "rejected");
  }
}

// Rounding may leave a mean log-probability at 0 or above it.
TEST_P(PreferenceLosses, CertainAnswersHaveFiniteOdds) {
  const Tensor sure = f32({0, 1e-7, -200}, {3}, device(GetParam())).set_requires_grad();
  const Tensor other = f32({-1, -300, 0}, {3}, device(GetParam())).set_requires_grad();
  const Tensor loss = nn::orpo_loss(sure, other);
  backward(loss);
  for (const Tensor& each : {loss, sure.grad(), other.grad()}) {
    for (const double value : each.to_doubles()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(PreferenceLosses, LogProbabilitiesAreThoseOfTheLogits) {
  Values xs, ws;
  for (int i = 0; i < 6 * 5; ++i) xs.push_back(std::sin(0.7 * (i + 1)));
  for (int i = 0; i < 11 * 5; ++i) ws.push_back(1.5 * std::sin(1.3 * (i + 1)));
  const Tensor w = f32(ws, {11, 5}, device(GetParam()));
  const nn::Projection head({w}, {11, 5});
  const std::vector<int32_t> numbers{3, -100, 10, 0, 7, -100};
  const Tensor targets = Tensor::from_vector(numbers, {2, 3}, &device(GetParam()));
  const Tensor found = nn::linear_log_probabilities(f32(xs, {2, 3, 5}, device(GetParam())), head, targets,
                                                    {.ignore_index = -100, .stretch = 4});
  ASSERT_EQ(found.shape(), Shape({2, 3}));
  const Values values = found.to_doubles();
  for (size_t row = 0; row < 6; ++row) {
    double total = 0, own = 0;
    for (size_t v = 0; v < 11; ++v) {
      double logit = 0;
      for (size_t k = 0; k < 5; ++k) logit += xs[row * 5 + k] * ws[v * 5 + k];
      total += std::exp(logit);
      if (static_cast<int32_t>(v) == numbers[row]) own = logit;
    }
    EXPECT_NEAR(values[row], numbers[row] < 0 ? 0 : own - std::log(total), 1e-5) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PreferenceLosses, testing::ValuesIn(test::value_devices()), device_test_name);

TEST(PreferenceLossesRefuse, WhatDoesNotFit) {
  const Tensor a = f32({-1, -2}, {2}), b = f32({-1}, {1});
  expect_error<ShapeError>([&] { nn::dpo_loss(a, a, a, b); }, {"[dpo_loss]", "(2) and (1)"});
  expect_error<ShapeError>([&] { nn::orpo_loss(a, b); }, {"[orpo_loss]", "(2) and (1)"});
  expect_error<DTypeError>([&] { nn::orpo_loss(a, cast(a, DType::i32)); }, {"are i32; expected floats"});
  expect_error<ValueError>([&] { nn::dpo_loss(a, a, a, a, {.beta = 0}); }, {"beta is 0"});
  expect_error<ValueError>([&] { nn::dpo_loss(a, a, a, a, {.label_smoothing = 0.5}); }, {"in [0, 0.5)"});
  expect_error<ValueError>([&] { nn::orpo_loss(a, a, {.lambda = -1}); }, {"lambda is -1"});
}

}  // namespace
}  // namespace heddle::tests
