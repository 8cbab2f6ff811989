// vae: a variational autoencoder of digits, which draws new ones.
#include "heddle/nn/models/vae.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/metrics.h"
#include "heddle/train/recipes/digits.h"
#include "heddle/train/recipes/recipes.h"

namespace heddle::train {
namespace {

constexpr int64_t sheet = 8;  // images along a side of the sample

nn::AutoencoderOptions options_of(const Config& c) {
  return {.in = digit_side * digit_side,
          .hidden = c.model_value<Integers>("hidden"),
          .latent = c.model_value<Integer>("latent")};
}

class DigitVae final : public ImageTask {
 public:
  explicit DigitVae(const TaskRequest& r)
      : ImageTask(read_digits(r.config), r.device),
        beta_(r.config.model_value<Number>("beta")),
        model_(options_of(r.config), {.device = r.device}) {
    if (!(beta_ >= 0))
      throw ValueError(fmt::format("[vae] the weight of the divergence, beta, is {}; it must not be negative", beta_));
  }
  nn::Module& model() override { return model_; }
  Tensor loss(const std::vector<Tensor>& batch) override { return model_.loss(batch.at(0), beta_).total; }

  // A sheet of new digits.
  Generated generate() override {
    Generator always_the_same{1, 0};
    const Tensor digits =
        reshape(model_.sample(sheet * sheet, &always_the_same), {sheet, sheet, digit_side, digit_side});
    const std::vector<uint8_t> pixels =
        reshape(transpose(digits, 1, 2) * 255.0, {1, sheet * digit_side, sheet * digit_side}).to_vector<uint8_t>();
    return {.image = data::Array::of(pixels, {1, sheet * digit_side, sheet * digit_side})};
  }

 protected:
  Evaluation measure(const data::DatasetPtr& images) override {
    Generator always_the_same{1, 0};
    nn::Mean total(device()), reconstruction(&device()), divergence(&device());
    for_each_batch(images, [&](const std::vector<Tensor>& batch) {
      const auto examples = static_cast<double>(batch.at(0).dim(0));
      const nn::Vae::Loss loss = model_.loss(batch.at(0), beta_, &always_the_same);
      total.add(loss.total, examples);
      reconstruction.add(loss.reconstruction, examples);
      divergence.add(loss.divergence, examples);
    });
    return {.loss = total.value(),
            .examples = images->size(),
            .metrics = {{"reconstruction", reconstruction.value()}, {"divergence", divergence.value()}}};
  }

 private:
  double beta_;
  nn::Vae model_;
};

}  // namespace

Recipe vae() {
  return {.name = "vae",
          .help = "variational autoencoder of 28x28 images, which draws new ones",
          .model = {{"hidden", Integers{400},
                     "widths of the encoder's hidden layers; the decoder's are the same backwards"},
                    {"latent", Integer{20}, "numbers that describe an image"},
                    {"beta", Number{1}, "weight of the divergence"}},
          .unused = joined({"data.mixup", "data.tokenizer", "training.label_smoothing"}, own_data_options()),
          .defaults =
              [](Config& c) {
                c.training.epochs = 10;
                c.training.batch = 128;
                c.optimizer.lr = 3e-3;
              },
          .make = [](const TaskRequest& r) -> std::unique_ptr<Task> { return std::make_unique<DigitVae>(r); },
          .network = [](const TaskRequest& r) -> Network {
            return {std::make_shared<nn::Vae>(options_of(r.config), nn::ParameterOptions{.device = r.device}),
                    Shape{1, 1, digit_side, digit_side}};
          }};
}

}  // namespace heddle::train
