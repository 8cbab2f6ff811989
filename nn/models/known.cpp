#include "heddle/nn/models/known.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/models/cnn.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/models/lenet.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/models/mobilenet.h"
#include "heddle/nn/models/recurrent_lm.h"
#include "heddle/nn/models/resnet.h"
#include "heddle/nn/models/unet.h"
#include "heddle/nn/models/vae.h"
#include "heddle/nn/models/vit.h"

namespace heddle::nn {
namespace {

template <class Model, class Options>
KnownModel known(const char* name, const Options& options, const Shape& input, DType dtype = DType::f32) {
  return {name,
          [options](DeviceRef device) { return std::make_unique<Model>(options, ParameterOptions{.device = device}); },
          input, dtype};
}

// A classifier of images, whose options `fit` gives their form.
template <class Model, class Options, class Fit>
KnownModel classifier(const char* name, const Options& options, const Shape& input, const char* head, Fit fit) {
  KnownModel made = known<Model>(name, options, input);
  made.head = head;
  made.make_classifier = [options, fit](const ImageForm& form, DeviceRef device) {
    Options own = options;
    fit(own, form);
    return std::make_unique<Model>(own, ParameterOptions{.device = device});
  };
  return made;
}

KnownModel residual(const char* name, const ResNetOptions& options, const Shape& input) {
  return classifier<ResNet>(name, options, input, "fc.*", [](ResNetOptions& o, const ImageForm& form) {
    o.channels = form.channels;
    o.classes = form.classes;
  });
}

void fit_mlp(MlpOptions& o, const ImageForm& form) {
  o.in = form.channels * form.side * form.side;
  o.out = form.classes;
}
void fit_cnn(CnnOptions& o, const ImageForm& form) {
  o.channels = form.channels;
  o.classes = form.classes;
}
void fit_lenet(LeNetOptions& o, const ImageForm& form) {
  o.channels = form.channels;
  o.height = o.width = form.side;
  o.classes = form.classes;
}
void fit_mobilenet(MobileNetV2Options& o, const ImageForm& form) {
  if (form.channels != 3)
    throw ValueError(fmt::format("[mobilenetv2] images have {} channels; it takes 3", form.channels));
  o.classes = form.classes;
}
void fit_vit(VitOptions& o, const ImageForm& form) {
  o.channels = form.channels;
  o.size = form.side;
  o.classes = form.classes;
}

KnownModel gpt(const char* name, const GptOptions& options) {
  return known<Gpt>(name, options, {1, options.context}, DType::i32);
}

KnownModel llama(const char* name, const LlamaOptions& options) {
  return known<Llama>(name, options, {1, options.context}, DType::i32);
}

ResNetOptions for_cifar(ResNetOptions options) {
  options.small_input = true;
  return options;
}

}  // namespace

std::span<const KnownModel> known_models() {
  static const Shape image{1, 3, 224, 224}, digit{1, 1, 28, 28};
  static const std::vector<KnownModel> all = {
      classifier<Mlp>("mlp", MlpOptions{}, {1, 784}, "4.*", fit_mlp),
      classifier<Cnn>("cnn", CnnOptions{}, digit, "head.*", fit_cnn),
      classifier<LeNet>("lenet", LeNetOptions{}, digit, "classifier.4.*", fit_lenet),
      residual("resnet18", resnet18(), image),
      residual("resnet34", resnet34(), image),
      residual("resnet50", resnet50(), image),
      residual("resnet18-cifar", for_cifar(resnet18(10)), {1, 3, 32, 32}),
      classifier<MobileNetV2>("mobilenetv2", MobileNetV2Options{}, image, "classifier.1.*", fit_mobilenet),
      classifier<Vit>("vit-b16", vit_b16(), image, "heads.head.*", fit_vit),
      known<UNet>("unet", UNetOptions{}, {1, 1, 32, 32}),
      known<Autoencoder>("autoencoder", AutoencoderOptions{}, {1, 784}),
      known<Vae>("vae", AutoencoderOptions{}, {1, 784}),
      known<RecurrentLm>("lstm", RecurrentLmOptions{}, {1, 64}, DType::i32),
      known<RecurrentLm>("gru", RecurrentLmOptions{.cell = RecurrentCellKind::gru}, {1, 64}, DType::i32),
      gpt("gpt2", gpt2()),
      gpt("gpt2-medium", gpt2_medium()),
      gpt("gpt2-large", gpt2_large()),
      gpt("gpt2-xl", gpt2_xl()),
      gpt("nanogpt-char", nanogpt_char()),
      gpt("nanogpt-char-cpu", nanogpt_char_cpu()),
      llama("smollm2-135m", smollm2_135m()),
      llama("tiny-llama-1b", tiny_llama_1b()),
  };
  return all;
}

const KnownModel& find_model(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KnownModel& model : known_models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw ValueError(fmt::format("[model] there is no model '{}'{}; there are {}", name, did_you_mean(name, names),
                               fmt::join(names, ", ")));
}

const KnownModel& find_classifier(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KnownModel& model : known_models()) {
    if (!model.make_classifier) continue;
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw ValueError(fmt::format("[model] there is no classifier of images '{}'{}; there are {}", name,
                               did_you_mean(name, names), fmt::join(names, ", ")));
}

}  // namespace heddle::nn
