// Small networks, trained for a few steps: the losses must be the reference device's.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "checks/device_checks.h"
#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/philox.h"
#include "heddle/nn/nn.h"

namespace heddle::checks {
namespace {

struct Network {
  const char* name;
  std::unique_ptr<nn::Module> (*make)(DeviceContext& device);
  std::unique_ptr<nn::Optimizer> (*optimizer)(std::vector<Tensor> parameters);
  Shape input;  // (N, ...)
  int64_t classes;
  bool tokens;  // the input: numbers of classes, not floats
  int steps;
};

std::vector<float> noise(uint32_t stream, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = philox_uniform({0x6e6f6973, 0x65, stream, 0}, i);
  return values;
}

// The same on every device: matrices uniform in +-1/sqrt(fan in), weights of norms 1, biases 0.
void set_parameters(const nn::Module& model) {
  const NoGradScope no_grad;
  uint32_t stream = 0;
  for (auto [name, tensor] : model.named_parameters()) {
    const Shape& shape = tensor.shape();
    std::vector<float> values(static_cast<size_t>(shape.numel()), name.ends_with("weight") ? 1.0f : 0.0f);
    if (shape.rank() > 1) {
      const double bound = 1 / std::sqrt(static_cast<double>(shape.numel() / shape[0]));
      values = noise(stream, shape.numel());
      for (float& v : values) v = static_cast<float>((v * 2 - 1) * bound);
    }
    tensor.assign(Tensor::from_vector(values, shape, &tensor.device()));
    ++stream;
  }
}

Tensor whole_noise(uint32_t stream, const Shape& shape, int64_t below, DeviceContext& device) {
  const std::vector<float> values = noise(stream, shape.numel());
  std::vector<int32_t> numbers;
  for (const float v : values) numbers.push_back(static_cast<int32_t>(v * static_cast<float>(below)));
  return Tensor::from_vector(numbers, shape, &device);
}

std::vector<double> losses(const Network& network, DeviceContext& device) {
  const std::unique_ptr<nn::Module> model = network.make(device);
  set_parameters(*model);
  const std::unique_ptr<nn::Optimizer> optimizer = network.optimizer(model->parameters());
  std::vector<double> found;
  for (int step = 0; step < network.steps; ++step) {
    const uint32_t stream = 1000 + 2 * static_cast<uint32_t>(step);
    const Tensor x = network.tokens ? whole_noise(stream, network.input, network.classes, device)
                                    : Tensor::from_vector(noise(stream, network.input.numel()), network.input, &device);
    const Tensor logits = (*model)(x).reshape({-1, network.classes});
    const Tensor loss = cross_entropy(logits, whole_noise(stream + 1, {logits.dim(0)}, network.classes, device));
    backward(loss);
    optimizer->update();
    optimizer->zero_grad();
    found.push_back(loss.item());
  }
  return found;
}

std::string against_reference(const Network& network, DeviceContext& context) {
  constexpr double tolerance = 1e-4;  // relative, of f32 losses after a few steps
  const std::vector<double> expected = losses(network, device("reference:0")), found = losses(network, context);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(found[i] - expected[i]) <= tolerance * std::abs(expected[i])))
      return fmt::format("the loss of step {} is {:.7g}, expected {:.7g}", i, found[i], expected[i]);
  }
  return {};
}

std::unique_ptr<nn::Optimizer> adamw(std::vector<Tensor> parameters) {
  return std::make_unique<nn::AdamW>(std::move(parameters), 1e-2);
}
std::unique_ptr<nn::Optimizer> sgd(std::vector<Tensor> parameters) {
  return std::make_unique<nn::SGD>(std::move(parameters), nn::SgdOptions{.lr = 0.05, .momentum = 0.9});
}

std::unique_ptr<nn::Module> perceptron(DeviceContext& d) {
  return std::make_unique<nn::Sequential>(nn::Linear(50, 33, {.device = d}), nn::ReLU(),
                                          nn::Linear(33, 10, {.device = d}));
}
std::unique_ptr<nn::Module> convolutions(DeviceContext& d) {
  return std::make_unique<nn::Sequential>(nn::Conv2d(3, 8, {3}, {.padding = {1}, .device = d}),
                                          nn::BatchNorm(8, {.device = d}), nn::ReLU(), nn::MaxPool2d({2}),
                                          nn::Flatten(), nn::Linear(8 * 6 * 5, 10, {.device = d}));
}
std::unique_ptr<nn::Module> transformer(DeviceContext& d) {
  return std::make_unique<nn::Gpt>(
      nn::GptOptions{.vocabulary = 17, .context = 9, .layers = 1, .heads = 2, .width = 16, .dropout = 0},
      nn::ParameterOptions{.device = d});
}

}  // namespace

void add_training_checks(std::vector<DeviceCheck>& checks) {
  const Network networks[] = {
      {"a perceptron, 10 steps of AdamW", perceptron, adamw, {7, 50}, 10, false, 10},
      {"convolutions and a norm, 3 steps of SGD", convolutions, sgd, {3, 3, 12, 10}, 10, false, 3},
      {"a transformer, 3 steps of AdamW", transformer, adamw, {3, 9}, 17, true, 3},
  };
  for (const Network& network : networks)
    checks.push_back({"training", network.name, [](const Caps&) { return std::string(); },
                      [network](DeviceContext& context) { return against_reference(network, context); }});
}

}  // namespace heddle::checks
