#include "checks/networks.h"

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"

namespace heddle::checks {
namespace {

constexpr uint32_t steps = 10;

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

}  // namespace

const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
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

std::vector<double> training_losses(const Network& network, DeviceContext& device) {
  const std::unique_ptr<nn::Module> model = network.model(device);
  formula::set_by_formula(formula::parameters_of(*model));
  const std::unique_ptr<nn::Optimizer> optimizer = network.optimizer(model->parameters());
  std::vector<Tensor> losses;
  for (uint32_t step = 0; step < steps; ++step) {
    const formula::Batch batch = network.batch(step, device);
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

}  // namespace heddle::checks
