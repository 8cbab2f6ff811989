// infer: a whole model's forward pass without gradients, on random data: batch normalisation by its running statistics,
// dropout off. ResNets, MobileNetV2 and ViT take 224 x 224 pictures and tell 1000 classes apart; gpt2, the smallest of
// its family, and char-gpt (nanoGPT's configuration for a CPU) take 128 and 64 tokens and give the logits of all; lstm
// is the recipe char-lstm's, over 64 characters.
#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>

#include "bench/bench.h"
#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/nn.h"

namespace heddle::bench {
namespace {

constexpr std::string_view infer_form =
    "mlp:BATCH, cnn:BATCH, resnet18:BATCH, resnet50:BATCH, mobilenet-v2:BATCH, vit:BATCH, gpt2:BATCH, char-gpt:BATCH "
    "or lstm:BATCH";
constexpr int64_t gpt2_tokens = 128, lstm_tokens = 64;

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

Inference photographs(std::shared_ptr<nn::Module> model, int64_t batch, DeviceContext& device) {
  return on_images(std::move(model), {batch, 3, 224, 224}, device);
}

Inference gpt2(int64_t batch, DeviceContext& device) {
  const nn::GptOptions options{.context = gpt2_tokens, .dropout = 0};
  return on_tokens(std::make_shared<nn::Gpt>(options, nn::ParameterOptions{.device = device}), options.vocabulary,
                   batch, gpt2_tokens, device);
}

Inference char_gpt_inference(int64_t batch, DeviceContext& device) {
  const nn::GptOptions options = nn::nanogpt_char_cpu(character_vocabulary);
  return on_tokens(std::make_shared<nn::Gpt>(options, nn::ParameterOptions{.device = device}), character_vocabulary,
                   batch, options.context, device);
}

template <class Model, class Options>
std::shared_ptr<nn::Module> model_of(const Options& options, DeviceContext& device) {
  return std::make_shared<Model>(options, nn::ParameterOptions{.device = device});
}

using Make = Inference (*)(int64_t batch, DeviceContext& device);

const std::map<std::string, Make, std::less<>>& models() {
  static const std::map<std::string, Make, std::less<>> table = {
      {"mlp",
       [](int64_t n, DeviceContext& d) {
         return on_images(mlp_model(d), {n, 784}, d);
       }},
      {"cnn",
       [](int64_t n, DeviceContext& d) {
         return on_images(model_of<nn::Cnn>(nn::CnnOptions{}, d), {n, 1, 28, 28}, d);
       }},
      {"resnet18",
       [](int64_t n, DeviceContext& d) { return photographs(model_of<nn::ResNet>(nn::resnet18(), d), n, d); }},
      {"resnet50",
       [](int64_t n, DeviceContext& d) { return photographs(model_of<nn::ResNet>(nn::resnet50(), d), n, d); }},
      {"mobilenet-v2",
       [](int64_t n, DeviceContext& d) {
         return photographs(model_of<nn::MobileNetV2>(nn::MobileNetV2Options{}, d), n, d);
       }},
      {"vit", [](int64_t n, DeviceContext& d) { return photographs(model_of<nn::Vit>(nn::vit_b16(), d), n, d); }},
      {"gpt2", gpt2},
      {"char-gpt", char_gpt_inference},
      {"lstm",
       [](int64_t n, DeviceContext& d) {
         return on_tokens(model_of<nn::RecurrentLm>(char_lstm_options(), d), character_vocabulary, n, lstm_tokens, d);
       }},
  };
  return table;
}

Workload forward_pass(Inference inference) {
  inference.model->eval();
  Workload w;
  w.run = [made = std::move(inference)] {
    const NoGradScope no_grad;
    return std::vector<Tensor>{(*made.model)(made.x)};
  };
  return w;
}

Case parse_infer(const std::string& name, DType) {
  const size_t colon = name.find(':');
  const auto model = models().find(name.substr(0, colon));
  if (model == models().end()) throw ValueError(fmt::format("[bench] infer case '{}': expected {}", name, infer_form));
  const int64_t batch =
      parse_sizes("infer", colon == std::string::npos ? "" : name.substr(colon + 1), 1, infer_form)[0];
  Case c;
  c.bound = Bound::none;
  c.tolerance = 1e-4;
  c.make = [make = model->second, batch](const Environment& env) {
    manual_seed(1);
    return forward_pass(make(batch, env.device));
  };
  // Examples do not meet in a forward pass: of 32 pictures the reference would compute ResNet-50 for hours.
  c.last_part = [make = model->second, batch](const Environment& env) {
    manual_seed(1);
    Inference last = make(batch, env.device);
    last.x = narrow(last.x, 0, batch - 1, 1);
    return forward_pass(std::move(last));
  };
  return c;
}

std::vector<std::string> standard_inferences() {
  std::vector<std::string> cases;
  for (const char* batch : {"1", "32"}) {
    for (const char* model : {"mlp", "cnn", "resnet18", "resnet50", "mobilenet-v2", "gpt2", "char-gpt", "lstm"})
      cases.push_back(fmt::format("{}:{}", model, batch));
  }
  return cases;
}

}  // namespace

Family infer_family() {
  return {"infer", std::string(infer_form), standard_inferences(), {DType::f32}, {}, parse_infer};
}

}  // namespace heddle::bench
