// infer: a whole model's forward pass without gradients, on random data: batch normalisation by its running statistics,
// dropout off. ResNets, MobileNetV2 and ViT take 224 x 224 pictures and tell 1000 classes apart; gpt2, the smallest of
// its family, and char-gpt (nanoGPT's configuration for a CPU) take 128 and 64 tokens and give the logits of all; lstm
// is the recipe char-lstm's, over 64 characters.
#include <fmt/format.h>

#include <memory>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/nn.h"

namespace heddle::bench {
namespace {

constexpr std::string_view form =
    "mlp:BATCH, cnn:BATCH, resnet18:BATCH, resnet50:BATCH, mobilenet-v2:BATCH, vit:BATCH, gpt2:BATCH, char-gpt:BATCH "
    "or lstm:BATCH";
constexpr int64_t characters = 65, gpt2_tokens = 128, lstm_tokens = 64;

// Weights and input of one forward pass.
struct Inference {
  std::shared_ptr<nn::Module> model;
  Tensor x;
};

Inference on_images(std::shared_ptr<nn::Module> model, const Shape& images, DeviceContext& device) {
  return {std::move(model), random_tensor(images, DType::f32, 1, device)};
}

Inference on_tokens(std::shared_ptr<nn::Module> model, int64_t vocabulary, int64_t batch, int64_t length,
                    DeviceContext& device) {
  const Shape shape{batch, length};
  return {std::move(model), Tensor::from_vector(random_indices(shape.numel(), vocabulary, 3), shape, &device)};
}

std::shared_ptr<nn::Module> mlp(DeviceContext& device) {
  return std::make_shared<nn::Sequential>(nn::Linear(784, 128, {.device = device}), nn::ReLU(),
                                          nn::Linear(128, 64, {.device = device}), nn::ReLU(),
                                          nn::Linear(64, 10, {.device = device}));
}

Inference make(const std::string& name, DeviceContext& device) {
  manual_seed(1);
  const size_t colon = name.find(':');
  const std::string model = name.substr(0, colon);
  const int64_t n = parse_sizes("infer", colon == std::string::npos ? "" : name.substr(colon + 1), 1, form)[0];
  const nn::ParameterOptions on{.device = device};
  const Shape photographs{n, 3, 224, 224};
  if (model == "mlp") return on_images(mlp(device), {n, 784}, device);
  if (model == "cnn") return on_images(std::make_shared<nn::Cnn>(nn::CnnOptions{}, on), {n, 1, 28, 28}, device);
  if (model == "resnet18") return on_images(std::make_shared<nn::ResNet>(nn::resnet18(), on), photographs, device);
  if (model == "resnet50") return on_images(std::make_shared<nn::ResNet>(nn::resnet50(), on), photographs, device);
  if (model == "mobilenet-v2")
    return on_images(std::make_shared<nn::MobileNetV2>(nn::MobileNetV2Options{}, on), photographs, device);
  if (model == "vit") return on_images(std::make_shared<nn::Vit>(nn::vit_b16(), on), photographs, device);
  if (model == "gpt2") {
    nn::GptOptions options;
    options.context = gpt2_tokens;
    options.dropout = 0;
    return on_tokens(std::make_shared<nn::Gpt>(options, on), options.vocabulary, n, gpt2_tokens, device);
  }
  if (model == "char-gpt") {
    const nn::GptOptions options = nn::nanogpt_char_cpu(characters);
    return on_tokens(std::make_shared<nn::Gpt>(options, on), characters, n, options.context, device);
  }
  if (model == "lstm") {
    const nn::RecurrentLmOptions options{.vocabulary = characters, .width = 64, .hidden = 256, .layers = 2};
    return on_tokens(std::make_shared<nn::RecurrentLm>(options, on), characters, n, lstm_tokens, device);
  }
  throw ValueError(fmt::format("[bench] infer case '{}': expected {}", name, form));
}

Case parse(const std::string& name, DType) {
  (void)make(name, device("null:0"));  // reads the text
  Case c;
  c.bound = Bound::none;
  c.tolerance = 1e-4;
  c.make = [name](const Environment& env) {
    const auto made = std::make_shared<Inference>(make(name, env.device));
    made->model->eval();
    Workload w;
    w.run = [made] {
      const NoGradScope no_grad;
      return std::vector<Tensor>{(*made->model)(made->x)};
    };
    return w;
  };
  return c;
}

std::vector<std::string> standard() {
  std::vector<std::string> cases;
  for (const char* batch : {"1", "32"}) {
    for (const char* model : {"mlp", "cnn", "resnet18", "resnet50", "mobilenet-v2", "gpt2", "char-gpt", "lstm"})
      cases.push_back(fmt::format("{}:{}", model, batch));
  }
  return cases;
}

}  // namespace

Family infer_family() { return {"infer", std::string(form), standard(), {DType::f32}, {}, parse}; }

}  // namespace heddle::bench
