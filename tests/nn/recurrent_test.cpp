// GRU and LSTM against values and gradients of PyTorch (recurrent_values.py), on every device; what they refuse.
#include "nn/recurrent.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/autograd.h"
#include "tests/nn/support.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

Tensor wave(const Shape& shape, double frequency, DeviceContext& d) {
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.6 * std::sin(frequency * (static_cast<double>(i) + 1));
  return f32(values, shape, d);
}

void expect_close(const Tensor& got, const nlohmann::json& want, const std::string& what) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], want[i].get<double>(), 2e-5) << what << " " << i;
}

void check(nn::Recurrent& layer, const nlohmann::json& want, size_t states, DeviceContext& d) {
  const std::vector<std::pair<std::string, Tensor>> named = layer.named_parameters();
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < named.size(); ++k) {
    Tensor parameter = named[k].second;
    parameter.assign(wave(parameter.shape(), 0.7 + 0.3 * static_cast<double>(k), d));
    inputs.push_back(parameter);
  }
  Tensor x = wave({4, 2, 3}, 0.9, d);
  inputs.push_back(x.set_requires_grad());
  std::vector<Tensor> first;
  for (size_t k = 0; k < states; ++k) {
    first.push_back(wave({2, 5}, 1.3 + static_cast<double>(k), d));
    inputs.push_back(first.back().set_requires_grad());
  }
  const nn::Recurrent::Result result = layer.run(x, first);
  Tensor loss = sum(square(result.states));
  for (const Tensor& last : result.last) loss = loss + sum(last * wave({2, 5}, 0.5, d));
  const std::vector<Tensor> gradients = grad(loss, inputs);
  expect_close(result.states, want["states"], "states");
  EXPECT_NEAR(loss.item(), want["loss"].get<double>(), 1e-4);
  for (size_t k = 0; k < states; ++k) expect_close(result.last[k], want["last"][k], "last");
  for (size_t k = 0; k < named.size(); ++k) expect_close(gradients[k], want[named[k].first], named[k].first);
  expect_close(gradients[4], want["x"], "x");
  for (size_t k = 0; k < states; ++k) expect_close(gradients[5 + k], want["first"][k], "first");
}

TEST(Recurrent, AgreesWithPyTorch) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/tests/nn/recurrent_values.json");
  const nlohmann::json values = nlohmann::json::parse(file);
  for (const std::string& id : test::value_devices()) {
    SCOPED_TRACE(id);
    DeviceContext& d = device(id);
    for (const bool checkpoint : {false, true}) {
      if (checkpoint && id != "reference:0") continue;  // the same kernels: tests/conformance/control_test.cpp
      nn::GRU gru(3, 5, {false, checkpoint, &d});
      check(gru, values["GRU"], 1, d);
      nn::LSTM lstm(3, 5, {false, checkpoint, &d});
      check(lstm, values["LSTM"], 2, d);
    }
  }
}

TEST(Recurrent, Refuses) {
  expect_error<ValueError>([] { nn::GRU(0, 5, {false, false, &reference()}); }, {"[GRU] sizes must be positive", "in 0"});
  nn::LSTM layer(3, 5, {false, false, &reference()});
  const Tensor x = zeros({4, 2, 3}, DType::f32, &reference());
  expect_error<ShapeError>([&] { layer(zeros({4, 3}, DType::f32, &reference())); }, {"[LSTM] the sequence is (4, 3)", "(time, batch, 3)"});
  expect_error<ValueError>([&] { layer.run(x, {x}); }, {"[LSTM] 1 initial states; it has 2"});
  expect_error<ShapeError>([&] { layer.run(x, {x, x}); }, {"an initial state is (4, 2, 3)", "(2, 5)"});
}

}  // namespace
}  // namespace heddle::tests
