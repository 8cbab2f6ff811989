// Ten Adam steps of the 784-128-64-10 MLP against PyTorch's losses, on every device (tools/parity/make_mlp_losses.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/autograd.h"
#include "core/base/error.h"
#include "core/device/context.h"
#include "core/graph/philox.h"
#include "nn/nn.h"

namespace heddle::tests {
namespace {

constexpr int batch_size = 32, steps = 10;

nn::Sequential make_model(DeviceContext& where) {
  Generator generator{1, 0};
  nn::Linear fc1(784, 128, true, &where, &generator);
  nn::Linear fc2(128, 64, true, &where, &generator);
  nn::Linear fc3(64, 10, true, &where, &generator);
  return nn::Sequential(fc1, nn::ReLU(), fc2, nn::ReLU(), fc3);
}

// As batch() of the script.
std::pair<Tensor, Tensor> make_batch(uint32_t step, DeviceContext& where) {
  std::vector<float> x(batch_size * 784);
  std::vector<int32_t> y(batch_size);
  for (size_t i = 0; i < x.size(); ++i) x[i] = philox_uniform({2, 0, step, 0}, i) * 0.5f;
  for (size_t row = 0; row < y.size(); ++row) {
    y[row] = static_cast<int32_t>(philox_uniform({2, 0, step, 1}, row) * 10.0f);
    for (size_t k = 0; k < 70; ++k) x[row * 784 + 70 * static_cast<size_t>(y[row]) + k] += 0.5f;
  }
  return {Tensor::from_vector(x, Shape{batch_size, 784}, &where), Tensor::from_vector(y, Shape{batch_size}, &where)};
}

std::vector<double> train(DeviceContext& where) {
  nn::Sequential model = make_model(where);
  EXPECT_EQ(model.parameter_count(), 109386);
  nn::Adam optimizer(model.parameters(), 1e-3);
  std::vector<Tensor> losses;
  for (uint32_t step = 0; step < steps; ++step) {
    const auto [x, y] = make_batch(step, where);
    const Tensor loss = cross_entropy(model(x), y);
    backward(loss);
    optimizer.update();
    optimizer.zero_grad();
    losses.push_back(loss.detach());
    eval_pending();
  }
  std::vector<double> values;
  for (const Tensor& loss : losses) values.push_back(loss.item());
  return values;
}

class Parity : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device_ = &device(GetParam());
    } catch (const DeviceUnavailable& error) {
      GTEST_SKIP() << error.what();
    }
  }
  DeviceContext* device_ = nullptr;
};

TEST_P(Parity, MlpTrainsLikePyTorch) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/parity/mlp_losses.json");
  const nlohmann::json stored = nlohmann::json::parse(file);
  const std::vector<double> expected = stored.at("f32");
  ASSERT_EQ(expected.size(), static_cast<size_t>(steps));
  const std::vector<double> found = train(*device_);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5 * expected[i]) << "step " << i;
}

TEST_P(Parity, TwoRunsAgreeBitForBit) { EXPECT_EQ(train(*device_), train(*device_)); }

INSTANTIATE_TEST_SUITE_P(Devices, Parity, testing::Values("reference:0", "opencl:0", "vulkan:0", "cuda:0"),
                         [](const auto& param_info) {
                           const std::string id = param_info.param;
                           return id.substr(0, id.find(':'));
                         });

}  // namespace
}  // namespace heddle::tests
