// Loss scaling: the scale and the parameters move as with torch.amp.GradScaler (tests/nn/loss_scale_values.py),
// overflow changes nothing, and states go around.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class LossScaleOn : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, LossScaleOn, testing::ValuesIn(test::value_devices()), device_test_name);

// The run that tests/nn/loss_scale_values.py recorded.
struct Recorded {
  nlohmann::json values;
  Recorded() { std::ifstream(HEDDLE_SOURCE_DIR "/tests/nn/loss_scale_values.json") >> values; }
  size_t size() const { return values["updates"].size(); }
  double factor(size_t i) const {
    return values["updates"][i] == 1 ? 1.0 : values["updates"][i] == 0 ? infinity : std::nan("");
  }
  nn::LossScaleOptions options(DeviceContext& device) const {
    return {.start = values["start"], .interval = values["interval"], .device = device};
  }
};

TEST_P(LossScaleOn, MovesAsGradScaler) {
  const Recorded recorded;
  Tensor weight = f32({1, -2}, {2}, where());
  weight.set_requires_grad(true);
  nn::LossScale scaling(recorded.options(where()));
  nn::SGD optimizer({weight}, {.lr = 0.5});
  optimizer.set_loss_scale(scaling);
  auto step = compile([&](const Tensor& factors) {
    backward(scaling.scale(sum(weight * factors)));
    optimizer.update();
    optimizer.zero_grad();
  });
  for (size_t i = 0; i < recorded.size(); ++i) {
    SCOPED_TRACE(i);
    step(f32({0.25, recorded.factor(i)}, {2}, where()));
    EXPECT_EQ(scaling.value().item(), recorded.values["scales"][i]);
    EXPECT_EQ(weight.to_vector<double>(), recorded.values["weights"][i].get<Values>());
  }
  EXPECT_EQ(scaling.skipped().item(), 4);
  EXPECT_EQ(scaling.grown().item(), 4);
  if (where().caps().target != Target::none) {
    EXPECT_GT(step.stats().replayed, 10u) << step.stats().refusal;
  }
}

TEST_P(LossScaleOn, AnOverflowLeavesStateAsItIs) {
  Tensor weight = f32({1, -2, 3}, {3}, where());
  weight.set_requires_grad(true);
  nn::LossScale scaling({.device = where()});
  EXPECT_EQ(scaling.value().item(), 32768);
  nn::AdamW optimizer({weight}, {.lr = 0.01});
  optimizer.set_loss_scale(scaling);
  optimizer.set_clip_norm(1.0);
  const auto update = [&](double slope) {
    backward(scaling.scale(sum(weight * slope)));
    optimizer.step();
    optimizer.zero_grad();
  };
  update(3);
  EXPECT_NEAR(optimizer.last_norm().item(), 3 * std::sqrt(3.0), 1e-4);  // without the scale
  const auto before = std::pair(weight.to_bytes(), optimizer.state_dict().at("0.m").to_bytes());
  update(infinity);
  EXPECT_EQ(std::pair(weight.to_bytes(), optimizer.state_dict().at("0.m").to_bytes()), before);
  EXPECT_EQ(scaling.value().item(), 16384);
  update(3);
  EXPECT_NE(weight.to_bytes(), before.first);
}

// A scale that is a power of two changes no bit of a good update, also where gradients add up before it.
TEST_P(LossScaleOn, ScalingAloneChangesNothing) {
  const auto train = [&](bool scaled) {
    Tensor weight = f32({1, -2, 3}, {3}, where());
    weight.set_requires_grad(true);
    nn::LossScale scaling({.device = where()});
    nn::AdamW optimizer({weight}, {.lr = 0.01});
    if (scaled) optimizer.set_loss_scale(scaling);
    for (int i = 0; i < 6; ++i) {
      const Tensor loss = sum(square(weight)) * 0.5;
      backward(scaled ? scaling.scale(loss) : loss);
      if (i % 2 == 0) continue;
      optimizer.step();
      optimizer.zero_grad();
    }
    return weight.to_vector<float>();
  };
  EXPECT_EQ(train(true), train(false));
}

// f16 has no number below 6e-8: without a scale these gradients are 0.
TEST_P(LossScaleOn, SmallGradientsSurviveInHalfPrecision) {
  const auto slope = [&](bool scaled) {
    nn::Linear layer(4, 1, {.bias = false, .device = where()});
    nn::LossScale scaling({.device = where()});
    Tensor loss;
    {
      const AutocastScope scope(DType::f16);
      loss = mean(layer(f32({1, 2, 3, 4}, {1, 4}, where()))) * 1e-8;
    }
    backward(scaled ? scaling.scale(loss) : loss);
    return (scaled ? layer.weight.grad() * scaling.inverse() : layer.weight.grad()).to_vector<double>();
  };
  for (const double g : slope(false)) EXPECT_EQ(g, 0);
  const Values scaled = slope(true);
  for (size_t i = 0; i < scaled.size(); ++i)
    EXPECT_NEAR(scaled[i], 1e-8 * static_cast<double>(i + 1), 1e-11 * static_cast<double>(i + 1));
}

TEST(LossScale, StateGoesAround) {
  nn::LossScale one({.start = 8, .interval = 4, .device = reference()});
  const auto flag = [](bool finite) {
    return Tensor::from_vector(std::vector<float>{finite ? 1.0f : 0.0f}, Shape{}, &reference()) > 0;
  };
  for (const bool finite : {true, false, true, true, true}) one.update(flag(finite));
  nn::LossScale other({.start = 8, .interval = 4, .device = reference()});
  nn::StateDict saved;
  for (const auto& [name, tensor] : one.state_dict())
    saved[name] = f32(tensor.to_vector<double>(), tensor.shape());  // as a file of f32 would hold them
  other.load_state_dict(saved);
  for (nn::LossScale* scaling : {&one, &other}) {
    EXPECT_EQ(scaling->value().item(), 4);
    scaling->update(flag(true));  // the fourth good one in a row
    EXPECT_EQ(scaling->value().item(), 8);
    EXPECT_EQ(scaling->skipped().item(), 1);
    EXPECT_EQ(scaling->grown().item(), 1);
  }
}

TEST(LossScale, DoesNotGrowBeyondF32) {
  nn::LossScale scaling({.start = 0x1p127, .interval = 1, .device = reference()});
  scaling.update(Tensor::from_vector(std::vector<float>{1}, Shape{}, &reference()) > 0);
  EXPECT_EQ(scaling.value().item(), 0x1p127);
  EXPECT_EQ(scaling.grown().item(), 0);
}

TEST(LossScale, RefusesWhatCannotBe) {
  expect_error<ValueError>([] { nn::LossScale scaling({.start = 0}); }, {"[LossScale]", "start is 0", "positive"});
  expect_error<ValueError>([] { nn::LossScale scaling({.growth = 0.5}); }, {"growth is 0.5", "at least 1"});
  expect_error<ValueError>([] { nn::LossScale scaling({.backoff = 2}); }, {"backoff is 2", "(0, 1]"});
  expect_error<ValueError>([] { nn::LossScale scaling({.interval = 0}); }, {"interval is 0; expected 1 to"});
  nn::LossScale scaling({.start = 8, .device = reference()});
  nn::StateDict state = scaling.state_dict();
  state.erase("good");
  expect_error<ValueError>([&] { scaling.load_state_dict(state); }, {"3 entries", "good"});
  state["bad"] = f32({1}, {1});
  expect_error<ValueError>([&] { scaling.load_state_dict(state); }, {"'bad'"});
  state = scaling.state_dict();
  state["value"] = f32({-1}, {1});
  expect_error<ValueError>([&] { scaling.load_state_dict(state); }, {"value is -1"});
  state["value"] = f32({1, 2}, {2});
  expect_error<ShapeError>([&] { scaling.load_state_dict(state); }, {"'value'", "(2)"});
  EXPECT_EQ(scaling.value().item(), 8);
}

}  // namespace
}  // namespace heddle::tests
