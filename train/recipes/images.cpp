// mnist-mlp, mnist-cnn and cifar-resnet.
#include "heddle/core/base/error.h"
#include "heddle/data/cifar.h"
#include "heddle/data/transforms.h"
#include "heddle/nn/models/mlp.h"
#include "heddle/nn/models/resnet.h"
#include "heddle/train/recipes/digits.h"
#include "heddle/train/recipes/image_classifier.h"
#include "heddle/train/recipes/recipes.h"

namespace heddle::train {
namespace {

std::unique_ptr<Task> classifier(std::shared_ptr<nn::Module> model, ImageData data, const TaskRequest& r) {
  return std::make_unique<ImageClassifier>(std::move(model), std::move(data), r.config, r.device);
}

ImageData read_cifar(const TaskRequest& r) {
  const Config& c = r.config;
  if (c.data.path.empty())
    throw ValueError(
        "[cifar-resnet] --data is missing: the folder of CIFAR's binary files (cifar-10-batches-bin or "
        "cifar-100-binary)");
  const data::ImageClasses cifar = data::read_cifar_folder(c.data.path);
  ImageData images = hold_out(cifar.train, c.data.path, c);
  if (c.data.augment) images.training.transforms = {data::random_crop(32, 32, 4), data::random_flip()};
  images.test = cifar.test;
  images.classes = static_cast<int64_t>(cifar.classes.size());
  images.preprocessing = r.stored;
  if (r.stored.statistics.mean.empty())
    images.preprocessing = {.statistics = data::channel_statistics(*images.training.dataset), .classes = cifar.classes};
  return images;
}

}  // namespace

Recipe mnist_mlp() {
  return {.name = "mnist-mlp",
          .help = "multilayer perceptron on 28x28 images of ten classes",
          .model = {{"hidden", Integers{128, 64}, "widths of the hidden layers"}},
          .unused = ImageClassifier::unused_options(),
          .defaults = [](Config& c) { c.training.epochs = 10; },
          .make =
              [](const TaskRequest& r) {
                const nn::MlpOptions options{.in = digit_side * digit_side,
                                             .hidden = r.config.model_value<Integers>("hidden")};
                return classifier(std::make_shared<nn::Mlp>(options, nn::ParameterOptions{.device = r.device}),
                                  read_digits(r.config), r);
              }};
}

Recipe mnist_cnn() {
  return {.name = "mnist-cnn",
          .help = "convolutional network of LeNet's kind on the same images",
          .model = lenet_model(),
          .unused = ImageClassifier::unused_options(),
          .defaults = lenet_defaults,
          .make = [](const TaskRequest& r) {
            return classifier(make_lenet(r.config, r.device), read_digits(r.config), r);
          }};
}

Recipe cifar_resnet() {
  return {.name = "cifar-resnet",
          .help = "residual network on CIFAR-10 or CIFAR-100",
          .model = {{"blocks", Integers{2, 2, 2, 2}, "of each stage; 2,2,2,2 is ResNet-18"},
                    {"width", Integer{64}, "channels of the first stage"}},
          .unused = ImageClassifier::unused_options(),
          .defaults =
              [](Config& c) {
                c.training.epochs = 30;
                c.training.batch = 128;
                c.training.label_smoothing = 0.1;
                c.data.augment = true;
                c.optimizer.name = "sgd";
                c.optimizer.lr = 0.2;
                c.optimizer.weight_decay = 5e-4;
                c.optimizer.nesterov = true;
                c.schedule.name = "one-cycle";
              },
          .make =
              [](const TaskRequest& r) {
                ImageData images = read_cifar(r);
                nn::ResNetOptions options;
                options.blocks = r.config.model_value<Integers>("blocks");
                options.width = r.config.model_value<Integer>("width");
                options.classes = images.classes;
                options.small_input = true;
                return classifier(std::make_shared<nn::ResNet>(options, nn::ParameterOptions{.device = r.device}),
                                  std::move(images), r);
              }};
}

}  // namespace heddle::train
