#include "bench/training_step.h"

#include <fmt/format.h>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

constexpr int64_t bytes_vocabulary = 256;

Tensor labels(int64_t count, int64_t classes, uint32_t stream, DeviceContext& device) {
  return Tensor::from_vector(random_indices(count, classes, stream), {count}, &device);
}

TrainingStep classifier(std::shared_ptr<nn::Module> model, const Shape& images, DeviceContext& device) {
  TrainingStep step;
  step.x = random_tensor(images, DType::f32, 1, device);
  step.y = labels(images[0], 10, 2, device);
  step.model = std::move(model);
  step.optimizer = std::make_shared<nn::Adam>(step.model->parameters(), 1e-3);
  step.loss = [model = step.model](const Tensor& x, const Tensor& y) { return cross_entropy((*model)(x), y); };
  return step;
}

TrainingStep mlp(int64_t batch, DeviceContext& device) { return classifier(mlp_model(device), {batch, 784}, device); }

TrainingStep resnet18(const std::vector<int64_t>& size, DeviceContext& device) {
  return classifier(
      std::make_shared<nn::ResNet>(nn::ResNetOptions{.width = size[1], .classes = 10, .small_input = true},
                                   nn::ParameterOptions{.device = device}),
      {size[0], 3, 32, 32}, device);
}

TrainingStep vae(int64_t batch, DeviceContext& device) {
  TrainingStep step;
  const auto model = std::make_shared<nn::Vae>(nn::AutoencoderOptions{}, nn::ParameterOptions{.device = device});
  step.x = step.y = random_tensor({batch, 784}, DType::f32, 1, device) + 0.5;
  step.model = model;
  step.optimizer = std::make_shared<nn::Adam>(model->parameters(), 1e-3);
  step.loss = [model](const Tensor& x, const Tensor&) { return model->loss(x).total; };
  return step;
}

// Random tokens of a batch, and for each the one that follows.
TrainingStep language_model(std::shared_ptr<nn::Module> model, int64_t vocabulary, int64_t context, int64_t batch,
                            DeviceContext& device) {
  TrainingStep step;
  step.model = std::move(model);
  const int64_t count = batch * context;
  step.x = reshape(labels(count, vocabulary, 3, device), {batch, context});
  step.y = reshape(labels(count, vocabulary, 4, device), {batch, context});
  step.optimizer = std::make_shared<nn::AdamW>(step.model->parameters(), 1e-3);
  step.loss = [model = step.model, vocabulary](const Tensor& x, const Tensor& y) {
    return cross_entropy(reshape((*model)(x), {-1, vocabulary}), reshape(y, {-1}));
  };
  return step;
}

TrainingStep gpt(const nn::GptOptions& options, int64_t batch, DeviceContext& device) {
  return language_model(std::make_shared<nn::Gpt>(options, nn::ParameterOptions{.device = device}), options.vocabulary,
                        options.context, batch, device);
}

TrainingStep gpt(const std::vector<int64_t>& size, bool checkpoint, bool offload, DeviceContext& device) {
  const int64_t batch = size[0], length = size[1], layers = size[2], width = size[3];
  if (width % head_width != 0)
    throw ValueError(fmt::format("[step] the width {} is not a multiple of {}, the size of a head", width, head_width));
  return gpt({.vocabulary = bytes_vocabulary,
              .context = length,
              .layers = layers,
              .heads = width / head_width,
              .width = width,
              .dropout = 0,
              .tanh_gelu = false,
              .checkpoint = checkpoint,
              .offload = offload},
             batch, device);
}

// nanoGPT's configuration for a CPU, on characters of Shakespeare.
TrainingStep char_gpt(int64_t batch, DeviceContext& device) {
  TrainingStep step = gpt(nn::nanogpt_char_cpu(character_vocabulary), batch, device);
  step.optimizer->set_clip_norm(1.0);
  return step;
}

TrainingStep char_lstm(int64_t batch, DeviceContext& device) {
  TrainingStep step =
      language_model(std::make_shared<nn::RecurrentLm>(char_lstm_options(), nn::ParameterOptions{.device = device}),
                     character_vocabulary, 64, batch, device);
  step.optimizer->set_clip_norm(1.0);
  return step;
}

// The batch of the recipe of that name; empty for other models.
std::string recipe_batch(std::string_view model) {
  for (const auto& [name, batch] :
       {std::pair{"mnist-mlp", "32"}, {"mnist-cnn", "64"}, {"vae", "128"}, {"char-lstm", "32"}, {"char-gpt", "12"}}) {
    if (model == name) return batch;
  }
  return "";
}

TrainingStep whole_batch(const std::string& text, DeviceContext& device) {
  manual_seed(1);
  const size_t colon = text.find(':');
  const std::string model = text.substr(0, colon),
                    sizes = colon != std::string::npos ? text.substr(colon + 1) : recipe_batch(model);
  const auto parse = [&](size_t count) { return parse_sizes("step", sizes, count, training_step_form); };
  if (model == "mlp" || model == "mnist-mlp") return mlp(parse(1)[0], device);
  if (model == "cnn")
    return classifier(std::make_shared<nn::Cnn>(nn::CnnOptions{}, nn::ParameterOptions{.device = device}),
                      {parse(1)[0], 1, 28, 28}, device);
  if (model == "mnist-cnn")
    return classifier(std::make_shared<nn::LeNet>(nn::LeNetOptions{}, nn::ParameterOptions{.device = device}),
                      {parse(1)[0], 1, 28, 28}, device);
  if (model == "resnet18") return resnet18(parse(2), device);
  if (model == "vae") return vae(parse(1)[0], device);
  if (model == "char-lstm") return char_lstm(parse(1)[0], device);
  if (model == "char-gpt") return char_gpt(parse(1)[0], device);
  if (model == "gpt" || model == "gpt-checkpoint" || model == "gpt-offload")
    return gpt(parse(4), model == "gpt-checkpoint", model == "gpt-offload", device);
  throw ValueError(fmt::format("[step] unknown training step '{}'; expected {}", text, training_step_form));
}

}  // namespace

std::shared_ptr<nn::Module> mlp_model(DeviceContext& device) {
  return std::make_shared<nn::Sequential>(nn::Linear(784, 128, {.device = device}), nn::ReLU(),
                                          nn::Linear(128, 64, {.device = device}), nn::ReLU(),
                                          nn::Linear(64, 10, {.device = device}));
}

nn::RecurrentLmOptions char_lstm_options() {
  return {.vocabulary = character_vocabulary, .width = 64, .hidden = 256, .layers = 2};
}

Tensor TrainingStep::record() const {
  const Tensor value = nn::accumulate({.parts = parts}, loss, x, y);
  optimizer->update();
  optimizer->zero_grad();
  return value;
}

TrainingStep make_training_step(const std::string& text, DeviceContext& device) {
  const size_t slash = text.find('/');
  TrainingStep step = whole_batch(text.substr(0, slash), device);
  if (slash != std::string::npos) step.parts = parse_sizes("step", text.substr(slash + 1), 1, training_step_form)[0];
  return step;
}

}  // namespace heddle::bench
