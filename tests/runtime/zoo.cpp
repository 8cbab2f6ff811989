#include "tests/runtime/zoo.h"

#include <memory>
#include <utility>

#include "heddle/nn/nn.h"

namespace heddle::test {
namespace {

// Its weights are drawn by the reference device, since one that is only planned for draws none.
template <class Model, class Options>
std::shared_ptr<Model> on_device(const Options& options, DeviceContext& target) {
  Generator generator{7};
  const auto model =
      std::make_shared<Model>(options, nn::ParameterOptions{.device = device("reference:0"), .generator = &generator});
  model->to(target);
  model->eval();
  return model;
}

template <class Model, class Options>
FunctionsOn one_input(Options options, Shape shape, DType dtype = DType::f32) {
  return [options, shape, dtype](DeviceContext& device) {
    const auto model = on_device<Model>(options, device);
    ModelFunction function;
    function.inputs = {{"x", dtype, shape}};
    function.outputs = {"y"};
    function.call = [model](const std::vector<Tensor>& x) { return std::vector<Tensor>{model->forward(x[0])}; };
    return std::vector<ModelFunction>{function};
  };
}

FunctionsOn conditioned_unet() {
  return [](DeviceContext& device) {
    const nn::UNetOptions options{.width = 8, .multipliers = {1, 2}, .groups = 4, .time = true};
    const auto model = on_device<nn::UNet>(options, device);
    ModelFunction function;
    function.inputs = {{"images", DType::f32, {2, 1, 8, 8}}, {"step", DType::i32, {2}}};
    function.outputs = {"noise"};
    function.call = [model](const std::vector<Tensor>& x) { return std::vector<Tensor>{model->run(x[0], x[1])}; };
    return std::vector<ModelFunction>{function};
  };
}

}  // namespace

std::vector<ZooModel> zoo() {
  using namespace nn;
  const AutoencoderOptions code{.in = 64, .hidden = {32}, .latent = 5};
  return {
      {"mlp", one_input<Mlp>(MlpOptions{.in = 20, .hidden = {32, 16}, .out = 10}, {4, 20})},
      {"cnn", one_input<Cnn>(CnnOptions{.widths = {4, 8}}, {2, 1, 16, 16})},
      {"lenet",
       one_input<LeNet>(LeNetOptions{.height = 16, .width = 16, .stages = {4, 8}, .hidden = 16}, {2, 1, 16, 16})},
      {"resnet", one_input<ResNet>(ResNetOptions{.blocks = {1, 1}, .width = 8, .classes = 10, .small_input = true},
                                   {1, 3, 16, 16})},
      {"mobilenet",
       one_input<MobileNetV2>(
           MobileNetV2Options{.classes = 10, .stages = {{1, 8, 1, 1}, {2, 8, 2, 2}}, .first = 8, .last = 16},
           {1, 3, 16, 16})},
      {"vit",
       one_input<Vit>(
           VitOptions{.size = 16, .patch = 8, .layers = 1, .heads = 2, .width = 16, .mlp_width = 32, .classes = 10},
           {2, 3, 16, 16})},
      {"unet", conditioned_unet()},
      {"recurrent-lm",
       one_input<RecurrentLm>(RecurrentLmOptions{.vocabulary = 16, .width = 8, .hidden = 8, .layers = 1}, {2, 5},
                              DType::i32)},
      {"gpt",
       one_input<Gpt>(GptOptions{.vocabulary = 16, .context = 8, .layers = 1, .heads = 2, .width = 16, .dropout = 0},
                      {2, 8}, DType::i32)},
      {"autoencoder", one_input<Autoencoder>(code, {3, 64})},
      {"vae", one_input<Vae>(code, {3, 64})},
  };
}

FunctionsOn two_buckets() {
  return [](DeviceContext& device) {
    const auto model = on_device<nn::Mlp>(nn::MlpOptions{.in = 20, .hidden = {64}, .out = 10}, device);
    std::vector<ModelFunction> functions;
    for (const int64_t n : {1, 3}) {
      ModelFunction function;
      function.inputs = {{"x", DType::f32, {n, 20}}};
      function.outputs = {"y", "hidden"};
      function.call = [model](const std::vector<Tensor>& x) {
        const Tensor y = model->forward(x[0]);
        return std::vector<Tensor>{y, transpose(y * 2.0)};
      };
      function.bucket = "N=" + std::to_string(n);
      functions.push_back(std::move(function));
    }
    return functions;
  };
}

}  // namespace heddle::test
