// ONNX export of the networks of nn/models, small ones: the bits that come back are the model's.
#include "heddle/nn/models/cnn.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/models/lenet.h"
#include "heddle/nn/models/mobilenet.h"
#include "heddle/nn/models/recurrent_lm.h"
#include "heddle/nn/models/resnet.h"
#include "heddle/nn/models/unet.h"
#include "heddle/nn/models/vae.h"
#include "heddle/nn/models/vit.h"
#include "heddle/nn/recurrent.h"
#include "tests/onnx/export_case.h"

namespace heddle::tests {
namespace {

TEST_F(OnnxExport, Mlp) {
  nn::Mlp model({.in = 12, .hidden = {8, 6}, .out = 4}, on());
  expect_model(model, {-1, 12});
  EXPECT_EQ(report.parameters, parameters);
}
TEST_F(OnnxExport, MlpOfEachActivation) {
  for (const nn::Activation a : {nn::Activation::gelu, nn::Activation::silu, nn::Activation::tanh}) {
    nn::Mlp model({.in = 12, .hidden = {8}, .out = 4, .activation = a, .dropout = 0.5}, on());
    expect_model(model, {-1, 3, 2, 2});
  }
}
TEST_F(OnnxExport, Cnn) {
  nn::Cnn model({}, on());
  expect_model(model, {-1, 1, 28, 28});
}
TEST_F(OnnxExport, LeNet) {
  nn::LeNet model({}, on());
  expect_model(model, {-1, 1, 28, 28});
}
TEST_F(OnnxExport, ResNet) {
  nn::ResNetOptions options{.blocks = {1, 1}, .width = 8, .classes = 5};
  nn::ResNet model(options, on());
  expect_model(model, {-1, 3, 20, 20});
  options.bottleneck = options.small_input = true;
  nn::ResNet other(options, on());
  expect_model(other, {-1, 3, 8, 8});
}
TEST_F(OnnxExport, MobileNet) {
  nn::MobileNetV2 model({.classes = 5}, on());
  expect_model(model, {-1, 3, 32, 32});
}
TEST_F(OnnxExport, Vit) {
  nn::Vit model({.size = 8, .patch = 4, .layers = 2, .heads = 2, .width = 16, .mlp_width = 32, .classes = 5}, on());
  expect_model(model, {-1, 3, 8, 8});
}
TEST_F(OnnxExport, UNet) {
  nn::UNet model({.width = 8, .multipliers = {1, 2}, .groups = 4}, on());
  expect_model(model, {-1, 1, 8, 8});
}
TEST_F(OnnxExport, UNetWithTime) {
  nn::UNet model({.width = 8, .multipliers = {1, 2}, .groups = 4, .time = true}, on());
  model.eval();
  const ExportFunction f = [&](const std::vector<Tensor>& x) { return std::vector{model.run(x[0], x[1])}; };
  expect_same(f, {{"x", DType::f32, sizes({-1, 1, 6, 6})}, {"time", DType::i32, sizes({-1})}},
              {{random({3, 1, 6, 6}), random({3}, DType::i32)}}, {.names = model.state_dict()});
}
TEST_F(OnnxExport, Autoencoders) {
  nn::Autoencoder model({.in = 12, .hidden = {8}, .latent = 3}, on());
  expect_model(model, {-1, 12});
  nn::Vae vae({.in = 12, .hidden = {8}, .latent = 3}, on());
  expect_model(vae, {-1, 12});
}
TEST_F(OnnxExport, RecurrentLanguageModels) {
  for (const auto cell : {nn::RecurrentCellKind::lstm, nn::RecurrentCellKind::gru}) {
    nn::RecurrentLm model({.vocabulary = 9, .width = 5, .hidden = 6, .layers = 2, .cell = cell}, on());
    expect_model(model, {-1, 7}, DType::i32);
  }
}
TEST_F(OnnxExport, Gpt) {
  nn::Gpt model({.vocabulary = 9, .context = 40, .layers = 2, .heads = 2, .width = 8}, on());
  expect_model(model, {-1, 7}, DType::i32);
}
// What the reference device rounds to f32 at the end, and a difference of the last digit of a double would pass by.
TEST_F(OnnxExport, GptInDoublePrecision) {
  nn::Gpt model({.vocabulary = 9, .context = 40, .layers = 2, .heads = 2, .width = 24}, on());
  model.to(DType::f64);
  expect_model(model, {-1, 7}, DType::i32);
}
TEST_F(OnnxExport, BothDirectionsAndLengths) {
  nn::LSTM model(3, 4, {.layers = 2, .bidirectional = true, .device = host()});
  model.eval();
  const ExportFunction f = [&](const std::vector<Tensor>& x) {
    const auto all = model.run(x[0], {}, x[1]);
    return std::vector{all.states, all.last[0], all.last[1]};
  };
  expect_same(f, {{"x", DType::f32, sizes({5, -1, 3})}, {"lengths", DType::i32, sizes({-1})}},
              {{random({5, 2, 3}), Tensor::from_vector(std::vector<int32_t>{5, 2}, {2}, &host())}},
              {.outputs = {"states", "h", "c"}, .names = model.state_dict()});
}

}  // namespace
}  // namespace heddle::tests
