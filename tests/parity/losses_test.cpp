// Ten training steps of small networks against PyTorch's losses, on every device (tools/parity/make_losses.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "tests/parity/formula.h"

namespace heddle::tests {
namespace {

constexpr uint32_t steps = 10;

struct Case {
  const char* name;
  std::function<std::unique_ptr<nn::Module>(DeviceContext&)> model;
  std::function<formula::Batch(uint32_t step, DeviceContext&)> batch;
  std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>&)> optimizer;
};

template <class M, class Options>
auto make(const Options& options) {
  return [=](DeviceContext& where) { return std::make_unique<M>(options, nn::ParameterOptions{.device = where}); };
}
auto images(int64_t batch, const Shape& shape) {
  return [=](uint32_t step, DeviceContext& where) { return formula::images(step, batch, shape, 10, where); };
}
auto text(int64_t batch, int64_t length) {
  return [=](uint32_t step, DeviceContext& where) { return formula::text(step, batch, length, 13, where); };
}
template <class O, class... Args>
auto optimizer(const Args&... args) {
  return [=](const std::vector<Tensor>& parameters) { return std::make_unique<O>(parameters, args...); };
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mlp", make<nn::Mlp>(nn::MlpOptions{.in = 48, .hidden = {32, 16}}), images(16, {48}), optimizer<nn::Adam>(1e-2)},
      {"cnn",
       make<nn::LeNet>(nn::LeNetOptions{.height = 13, .width = 12, .stages = {4, 8}, .hidden = 16, .dropout = 0}),
       images(8, {1, 13, 12}), optimizer<nn::SGD>(nn::SgdOptions{.lr = 0.05, .momentum = 0.9})},
      {"lstm", make<nn::RecurrentLm>(nn::RecurrentLmOptions{.vocabulary = 13, .width = 8, .hidden = 12}), text(4, 9),
       optimizer<nn::Adam>(3e-2)},
      {"gpt",
       make<nn::Gpt>(
           nn::GptOptions{.vocabulary = 13, .context = 16, .layers = 2, .heads = 2, .width = 16, .dropout = 0}),
       text(4, 11), optimizer<nn::AdamW>(nn::AdamOptions{.lr = 3e-3, .weight_decay = 0.1})},
      {"resnet18", make<nn::ResNet>(nn::ResNetOptions{.width = 4, .classes = 10, .small_input = true}),
       images(6, {3, 11, 12}), optimizer<nn::SGD>(nn::SgdOptions{.lr = 0.02, .momentum = 0.9})},
  };
  return all;
}

std::vector<double> train(const Case& c, DeviceContext& where) {
  const std::unique_ptr<nn::Module> model = c.model(where);
  formula::set_by_formula(formula::parameters_of(*model));
  const std::unique_ptr<nn::Optimizer> optimizer = c.optimizer(model->parameters());
  std::vector<Tensor> losses;
  for (uint32_t step = 0; step < steps; ++step) {
    const formula::Batch batch = c.batch(step, where);
    const Tensor logits = (*model)(batch.x);
    const Tensor loss = cross_entropy(reshape(logits, {batch.y.dim(0), -1}), batch.y);
    backward(loss);
    optimizer->update();
    optimizer->zero_grad();
    losses.push_back(loss.detach());
    eval_pending();
  }
  std::vector<double> values;
  for (const Tensor& loss : losses) values.push_back(loss.item());
  return values;
}

class Losses : public testing::TestWithParam<std::tuple<const char*, Case>> {
 protected:
  void SetUp() override {
    try {
      device_ = &device(std::get<0>(GetParam()));
    } catch (const DeviceUnavailable& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const Case& tested() const { return std::get<1>(GetParam()); }
  DeviceContext* device_ = nullptr;
};

TEST_P(Losses, AsPyTorchs) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/parity/losses.json");
  const nlohmann::json stored = nlohmann::json::parse(file);
  const std::vector<double> expected = stored.at(tested().name).at("f32"), found = train(tested(), *device_);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << "step " << i;
}

class Repeated : public Losses {};

TEST_P(Repeated, TwoRunsAgreeBitForBit) { EXPECT_EQ(train(tested(), *device_), train(tested(), *device_)); }

auto on_devices(const std::vector<Case>& which) {
  return testing::Combine(testing::Values("reference:0", "opencl:0", "vulkan:0", "cuda:0"), testing::ValuesIn(which));
}

std::string name_of_test(const testing::TestParamInfo<std::tuple<const char*, Case>>& param_info) {
  const std::string id = std::get<0>(param_info.param);
  return id.substr(0, id.find(':')) + "_" + std::get<1>(param_info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Devices, Losses, on_devices(cases()), name_of_test);
INSTANTIATE_TEST_SUITE_P(Devices, Repeated, on_devices({cases().front()}), name_of_test);

}  // namespace
}  // namespace heddle::tests
