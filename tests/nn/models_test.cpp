// Every model of nn/models: shapes at odd sizes, a gradient for each parameter, eval() without chance, state dicts, and
// a training step on each device.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/models/conv_norm.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

// In [0, 1), the same on every device.
Tensor noise(const Shape& shape, uint32_t stream, DeviceContext& where) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = philox_uniform({11, 0, stream, 0}, i);
  return Tensor::from_vector(values, shape, &where);
}

Tensor tokens(const Shape& shape, int64_t vocabulary, DeviceContext& where) {
  return cast(floor(noise(shape, 5, where) * static_cast<double>(vocabulary)), DType::i32);
}

// A small network, what it takes, and what comes out.
struct ModelCase {
  std::string name;
  std::function<std::unique_ptr<nn::Module>(DeviceContext&)> make;
  std::function<Tensor(DeviceContext&)> input;
  Shape output;
  bool step = false;  // also trained on each device; the others are in tests/parity
};

template <class Model, class Options>
ModelCase images(const char* name, const Options& options, const Shape& input, const Shape& output) {
  return {name,
          [=](DeviceContext& where) { return std::make_unique<Model>(options, nn::ParameterOptions{.device = where}); },
          [=](DeviceContext& where) { return noise(input, 3, where); }, output};
}

template <class Model, class Options>
ModelCase language(const char* name, const Options& options, const Shape& input) {
  Shape output = input;
  output.push_back(options.vocabulary);
  return {name,
          [=](DeviceContext& where) { return std::make_unique<Model>(options, nn::ParameterOptions{.device = where}); },
          [=](DeviceContext& where) { return tokens(input, options.vocabulary, where); }, output};
}

// forward() of a UNet with time needs another argument.
struct TimedUNet : nn::UNet {
  using UNet::UNet;
  Tensor forward(const Tensor& x) override {
    return run(x, arange(0, static_cast<double>(x.dim(0)), 1, DType::i32, &x.device()));
  }
};

ModelCase stepped(ModelCase c) {
  c.step = true;
  return c;
}

std::vector<ModelCase> model_cases() {
  const nn::ResNetOptions basic{.blocks = {1, 1}, .width = 4, .classes = 5},
      bottleneck{.blocks = {1, 1}, .bottleneck = true, .width = 2, .classes = 5, .small_input = true};
  const nn::MobileNetV2Options mobile{.classes = 5, .stages = {{1, 8, 2, 1}, {2, 8, 1, 2}}, .first = 8, .last = 16};
  const nn::VitOptions vit{
      .size = 12, .patch = 4, .layers = 2, .heads = 2, .width = 8, .mlp_width = 12, .classes = 5, .dropout = 0.1};
  return {
      images<nn::Mlp>(
          "Mlp",
          nn::MlpOptions{.in = 15, .hidden = {7, 9}, .out = 5, .activation = nn::Activation::gelu, .dropout = 0.2},
          {3, 1, 3, 5}, {3, 5}),
      images<nn::Cnn>("Cnn", nn::CnnOptions{.widths = {3, 5}, .classes = 4}, {3, 1, 11, 9}, {3, 4}),
      images<nn::LeNet>(
          "LeNet",
          nn::LeNetOptions{.channels = 2, .height = 13, .width = 9, .stages = {4, 6}, .hidden = 7, .classes = 5},
          {3, 2, 13, 9}, {3, 5}),
      images<nn::ResNet>("ResNet", basic, {3, 3, 19, 21}, {3, 5}),
      images<nn::ResNet>("ResNetBottleneck", bottleneck, {3, 3, 7, 5}, {3, 5}),
      stepped(images<nn::MobileNetV2>("MobileNetV2", mobile, {3, 3, 11, 13}, {3, 5})),
      images<nn::UNet>(
          "UNet", nn::UNetOptions{.in = 2, .out = 3, .width = 4, .multipliers = {1, 2}, .groups = 2, .dropout = 0.1},
          {2, 2, 7, 5}, {2, 3, 7, 5}),
      stepped(images<TimedUNet>("UNetWithTime",
                                nn::UNetOptions{.width = 4, .multipliers = {1, 1}, .groups = 2, .time = true},
                                {2, 1, 4, 5}, {2, 1, 4, 5})),
      stepped(images<nn::Vit>("Vit", vit, {3, 3, 12, 12}, {3, 5})),
      images<nn::Autoencoder>("Autoencoder", nn::AutoencoderOptions{.in = 15, .hidden = {9}, .latent = 3}, {3, 3, 5},
                              {3, 15}),
      stepped(images<nn::Vae>(
          "Vae", nn::AutoencoderOptions{.in = 15, .hidden = {9}, .latent = 3, .activation = nn::Activation::tanh},
          {3, 3, 5}, {3, 15})),
      language<nn::RecurrentLm>(
          "Lstm", nn::RecurrentLmOptions{.vocabulary = 11, .width = 5, .hidden = 6, .layers = 2, .dropout = 0.2},
          {3, 7}),
      stepped(language<nn::RecurrentLm>(
          "TiedGru",
          nn::RecurrentLmOptions{
              .vocabulary = 11, .width = 6, .hidden = 6, .layers = 1, .cell = nn::RecurrentCellKind::gru, .tied = true},
          {3, 7})),
      language<nn::Gpt>(
          "Gpt", nn::GptOptions{.vocabulary = 13, .context = 9, .layers = 2, .heads = 2, .width = 8, .dropout = 0.1},
          {3, 7}),
  };
}

std::unique_ptr<nn::Module> make(const ModelCase& c, DeviceContext& where, uint64_t seed = 1) {
  manual_seed(seed);
  std::unique_ptr<nn::Module> model = c.make(where);
  uint32_t stream = 100;
  const NoGradScope no_grad;
  // So that weights that begin as zeros hide nothing.
  for (Tensor& parameter : model->parameters())
    parameter.assign(parameter + 0.1 * noise(parameter.shape(), stream++, where));
  return model;
}

// A number in which every result counts, each with a weight of its own.
Tensor loss_of(const Tensor& y) { return mean(y * noise(y.shape(), 4, y.device())); }

class Models : public testing::TestWithParam<ModelCase> {};

TEST_P(Models, ShapeAndEvalWithoutChance) {
  const std::unique_ptr<nn::Module> model = make(GetParam(), reference());
  model->eval();
  const Tensor x = GetParam().input(reference());
  const Tensor first = (*model)(x), second = (*model)(x);
  EXPECT_EQ(first.shape(), GetParam().output);
  const Values values = first.to_doubles();
  EXPECT_EQ(values, second.to_doubles());
  for (const double v : values) EXPECT_TRUE(std::isfinite(v));
}

TEST_P(Models, AGradientReachesEveryParameter) {
  const std::unique_ptr<nn::Module> model = make(GetParam(), reference());
  backward(loss_of((*model)(GetParam().input(reference()))));
  eval_pending();
  for (const auto& [name, parameter] : model->named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    const Values gradient = parameter.grad().to_doubles();
    EXPECT_TRUE(std::ranges::all_of(gradient, [](double g) { return std::isfinite(g); })) << name;
    EXPECT_TRUE(std::ranges::any_of(gradient, [](double g) { return g != 0; })) << name;
  }
}

TEST_P(Models, StateDictMakesTheSameModel) {
  const std::unique_ptr<nn::Module> model = make(GetParam(), reference(), 1), other = make(GetParam(), reference(), 2);
  const Tensor x = GetParam().input(reference());
  (*model)(x);  // running statistics move
  eval_pending();
  const test::TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", model->state_dict());
  model->eval();
  other->eval();
  const Values expected = (*model)(x).to_doubles();
  EXPECT_NE((*other)(x).to_doubles(), expected);
  other->load_state_dict(load_safetensors(folder / "model.safetensors", &reference()).tensors);
  EXPECT_EQ((*other)(x).to_doubles(), expected);
}

// Losses before and after a step; draws are the same on every device.
Values train_once(const ModelCase& c, DeviceContext& where) {
  const std::unique_ptr<nn::Module> model = make(c, where);
  const Tensor x = c.input(where);
  nn::SGD optimizer(model->parameters(), 0.1);
  const Tensor before = loss_of((*model)(x));
  backward(before);
  optimizer.step();
  return {before.item(), loss_of((*model)(x)).item()};
}

class ModelsOnDevices : public testing::TestWithParam<std::tuple<std::string, ModelCase>> {};

TEST_P(ModelsOnDevices, AStepAsOnTheReference) {
  const auto& [id, c] = GetParam();
  const Values found = train_once(c, device(id)), expected = train_once(c, reference());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5 + 1e-4 * std::abs(expected[i])) << i;
  EXPECT_NE(expected[0], expected[1]);
}

std::vector<ModelsOnDevices::ParamType> stepped_cases() {
  std::vector<ModelsOnDevices::ParamType> cases;
  for (const std::string& id : test::kernel_devices()) {
    size_t number = 0;
    for (const ModelCase& c : model_cases()) {
      if (c.step && takes_case(id, "", number++)) cases.emplace_back(id, c);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Models, testing::ValuesIn(model_cases()),
                         [](const auto& param_info) { return param_info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ModelsOnDevices);
INSTANTIATE_TEST_SUITE_P(All, ModelsOnDevices, testing::ValuesIn(stepped_cases()), [](const auto& param_info) {
  const std::string& id = std::get<0>(param_info.param);
  return id.substr(0, id.find(':')) + std::get<1>(param_info.param).name;
});

// A seed gives the same first weights whatever the compiler: layers draw in the order of their names.
TEST(ModelWeights, AreDrawnInOrder) {
  Generator of_model{7}, of_layers{7};
  const nn::LeNetOptions sizes{.height = 4, .width = 6, .stages = {2}, .hidden = 5, .classes = 3};
  const nn::LeNet model(sizes, {.device = reference(), .generator = &of_model});
  const nn::Conv2d conv = nn::padded_conv({.in = 1, .out = 2}, {.device = reference(), .generator = &of_layers});
  const nn::Linear hidden(12, 5, {.device = reference(), .generator = &of_layers});
  const nn::Linear last(5, 3, {.device = reference(), .generator = &of_layers});
  nn::NamedTensors layers;
  for (const nn::Module* layer : {static_cast<const nn::Module*>(&conv), static_cast<const nn::Module*>(&hidden),
                                  static_cast<const nn::Module*>(&last)}) {
    for (const auto& [name, values] : layer->named_parameters()) layers.emplace_back(name, values);
  }
  nn::NamedTensors drawn;
  for (const auto& [name, values] : model.named_parameters()) {
    if (name.find("features.0.1.") == name.npos) drawn.emplace_back(name, values);  // but for batch norm's
  }
  ASSERT_EQ(drawn.size(), layers.size());
  for (size_t i = 0; i < drawn.size(); ++i)
    EXPECT_EQ(drawn[i].second.to_vector<float>(), layers[i].second.to_vector<float>()) << drawn[i].first;
}

TEST(ModelErrors, NameWhatDoesNotFit) {
  expect_error<ValueError>([] { nn::Gpt({.heads = 5, .width = 8}, {.device = reference()}); }, {"5 heads", "width 8"});
  expect_error<ValueError>([] { nn::Cnn({.widths = {}}, {.device = reference()}); }, {"[Cnn]", "no stages"});
  expect_error<ValueError>([] { nn::Vit({.size = 13, .patch = 4}, {.device = reference()}); }, {"patches of 4", "13"});
  expect_error<ValueError>([] { nn::Vit({.size = 12, .patch = 0}, {.device = reference()}); }, {"patches of 0", "12"});
  expect_error<ValueError>([] { nn::Vit({.size = 0, .patch = 4}, {.device = reference()}); }, {"size is 0"});
  expect_error<ValueError>([] { nn::Vit({.size = 12, .patch = 4, .heads = 0}, {.device = reference()}); }, {"0 heads"});
  expect_error<ValueError>([] { nn::Vit({.size = 12, .patch = 4, .heads = 2, .width = 0}, {.device = reference()}); },
                           {"width is 0"});
  expect_error<ValueError>([] { nn::ResNet({.blocks = {}}, {.device = reference()}); }, {"[ResNet]", "stage"});
  expect_error<ValueError>(
      [] {
        nn::LeNet({.height = 3, .stages = {4, 4}}, {.device = reference()});
      },
      {"[LeNet]", "3x28"});
  expect_error<ValueError>([] { nn::RecurrentLm({.width = 3, .hidden = 4, .tied = true}, {.device = reference()}); },
                           {"width 3", "hidden 4"});
  expect_error<ValueError>([] { nn::UNet({.width = 6, .groups = 4}, {.device = reference()}); },
                           {"4 groups", "width 6"});
  nn::UNet plain({.width = 4, .multipliers = {1}, .groups = 2}, {.device = reference()});
  expect_error<ValueError>(
      [&] {
        plain.run(zeros({1, 1, 4, 4}, DType::f32, &reference()), zeros({1}, DType::i32, &reference()));
      },
      {"no time"});
}

TEST(RecurrentLm, AStateGoesOnWhereATextWasCut) {
  manual_seed(3);
  nn::RecurrentLm model({.vocabulary = 11, .width = 5, .hidden = 6, .layers = 2}, {.device = reference()});
  const Tensor text = tokens({2, 7}, 11, reference());
  const nn::RecurrentLm::Result first = model.run(slice(text, 1, {.start = 0, .stop = 3}));
  const nn::RecurrentLm::Result second = model.run(slice(text, 1, {.start = 3, .stop = 7}), first.state);
  EXPECT_EQ(concat({first.logits, second.logits}, 1).to_doubles(), model(text).to_doubles());
}

TEST(Vae, TheLossIsTheFormula) {
  manual_seed(3);
  nn::Vae vae({.in = 4, .hidden = {3}, .latent = 2}, {.device = reference()});
  vae.eval();  // a draw of the latent numbers nevertheless: with their mean it would be no bound
  const Tensor x = noise({3, 4}, 9, reference());
  manual_seed(5);
  const nn::Vae::Loss loss = vae.loss(x, 0.5);
  const nn::Vae::Latent latent = vae.encode(x);
  manual_seed(5);
  const Values logits = vae.decode(vae.draw(latent)).to_doubles();
  const Values mean = latent.mean.to_doubles(), log_variance = latent.log_variance.to_doubles(),
               target = x.to_doubles();
  double reconstruction = 0, divergence = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    reconstruction -= (target[i] * std::log(p) + (1 - target[i]) * std::log(1 - p)) / 3;
  }
  for (size_t i = 0; i < mean.size(); ++i)
    divergence += (mean[i] * mean[i] + std::exp(log_variance[i]) - log_variance[i] - 1) / 2 / 3;
  EXPECT_NEAR(loss.reconstruction.item(), reconstruction, 1e-5);
  EXPECT_NEAR(loss.divergence.item(), divergence, 1e-6);
  EXPECT_NEAR(loss.total.item(), reconstruction + 0.5 * divergence, 1e-5);
  EXPECT_EQ(vae.sample(5).shape(), (Shape{5, 4}));
}

}  // namespace
}  // namespace heddle::tests
