// mnist-mlp and mnist-cnn: 28x28 images of ten classes, MNIST's four files or the embedded set of drawn digits.
#include <fmt/format.h>

#include "core/base/error.h"
#include "data/datasets.h"
#include "data/transforms.h"
#include "nn/models/lenet.h"
#include "nn/models/mlp.h"
#include "train/recipes/image_classifier.h"
#include "train/recipes/recipes.h"

namespace heddle::train {
namespace {

constexpr int64_t side = 28;

// (pixels u8 (1, rows, columns), label i32).
data::DatasetPtr dataset_of(const data::ImageSet& set, int64_t limit) {
  const int64_t images = limit > 0 ? std::min(limit, set.size()) : set.size();
  const std::span<const uint8_t> pixels(set.pixels.data(), static_cast<size_t>(images * set.image_size()));
  const std::vector<int32_t> labels(set.labels.begin(), set.labels.begin() + images);
  return data::from_arrays({data::Array::of(pixels, {images, 1, set.rows, set.columns}), data::Array::of(labels, {images})});
}

ImageData read_digits(const Config& c) {
  const data::Split split = c.data.path.empty() ? data::stroke_digits() : data::read_mnist_folder(c.data.path);
  if (split.train.rows != side || split.train.columns != side) {
    throw IoError(fmt::format("[{}] {}: images are {}x{}, expected {}x{}", c.run.recipe, split.name, split.train.rows, split.train.columns, side, side));
  }
  if (split.test.size() == 0) throw IoError(fmt::format("[{}] {}: there are no test images", c.run.recipe, split.name));
  ImageData digits;
  digits.training = {.name = split.name, .dataset = dataset_of(split.train, c.data.limit_train)};
  if (c.data.augment) digits.training.transforms.push_back(data::random_crop(side, side, 2));
  digits.training.transforms.push_back(data::to_float());
  digits.test = dataset_of(split.test, 0);
  digits.test_transforms = {data::to_float()};
  digits.classes = split.train.classes;
  return digits;
}

std::unique_ptr<Task> make(std::shared_ptr<nn::Module> model, const Config& c, DeviceContext& device) {
  return std::make_unique<ImageClassifier>(std::move(model), read_digits(c), c.training.label_smoothing, device);
}

}  // namespace

Recipe mnist_mlp() {
  return {.name = "mnist-mlp",
          .help = "multilayer perceptron on 28x28 images of ten classes",
          .model = {{"hidden", Integers{128, 64}, "widths of the hidden layers"}},
          .defaults = [](Config& c) { c.training.epochs = 5; },
          .make = [](const Config& c, DeviceContext& device) {
            return make(std::make_shared<nn::Mlp>(nn::MlpOptions{.in = side * side, .hidden = c.model_value<Integers>("hidden")}, &device), c, device);
          }};
}

Recipe mnist_cnn() {
  return {.name = "mnist-cnn",
          .help = "convolutional network of LeNet's kind on the same images",
          .model = {{"stages", Integers{16, 32, 64}, "channels of the stages; each halves the image"},
                    {"hidden", Integer{128}, "width of the hidden linear layer"},
                    {"dropout", Number{0.25}, "before the last layer"}},
          .defaults =
              [](Config& c) {
                c.training.epochs = 5;
                c.training.batch = 64;
                c.data.augment = true;
                c.optimizer.name = "adamw";
                c.optimizer.lr = 4e-3;
                c.optimizer.weight_decay = 0.02;
                c.schedule.name = "one-cycle";
              },
          .make = [](const Config& c, DeviceContext& device) {
            const nn::LeNetOptions options{.stages = c.model_value<Integers>("stages"), .hidden = c.model_value<Integer>("hidden"), .dropout = c.model_value<Number>("dropout")};
            return make(std::make_shared<nn::LeNet>(options, &device), c, device);
          }};
}

}  // namespace heddle::train
