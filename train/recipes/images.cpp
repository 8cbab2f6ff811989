// mnist-mlp, mnist-cnn, cifar-resnet and image-classifier.
#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/data/cifar.h"
#include "heddle/data/transforms.h"
#include "heddle/nn/models/mlp.h"
#include "heddle/nn/models/resnet.h"
#include "heddle/train/recipes/digits.h"
#include "heddle/train/recipes/image_classifier.h"
#include "heddle/train/recipes/pictures.h"
#include "heddle/train/recipes/recipes.h"

namespace heddle::train {
namespace {

constexpr int64_t cifar_side = 32;
constexpr nn::ImageForm digit_form{.channels = 1, .side = digit_side, .classes = 10};

std::unique_ptr<Task> classifier(std::shared_ptr<nn::Module> model, ImageData data, const TaskRequest& r,
                                 std::string head = "") {
  return std::make_unique<ImageClassifier>(std::move(model), std::move(data), r.config, r.device, std::move(head));
}

std::shared_ptr<nn::Module> make_mlp(const Config& c, const nn::ImageForm& form, DeviceContext& device) {
  const nn::MlpOptions options{
      .in = form.channels * form.side * form.side, .hidden = c.model_value<Integers>("hidden"), .out = form.classes};
  return std::make_shared<nn::Mlp>(options, nn::ParameterOptions{.device = device});
}

// ---- cifar-resnet

std::shared_ptr<nn::Module> make_resnet(const Config& c, const nn::ImageForm& form, DeviceContext& device) {
  nn::ResNetOptions options;
  options.blocks = c.model_value<Integers>("blocks");
  options.width = c.model_value<Integer>("width");
  options.channels = form.channels;
  options.classes = form.classes;
  options.small_input = true;
  return std::make_shared<nn::ResNet>(options, nn::ParameterOptions{.device = device});
}

int64_t cifar_side_of(const Config& c) { return c.data.image_size > 0 ? c.data.image_size : cifar_side; }

bool is_cifar(const std::string& folder) {
  return fs::exists(fs::path(folder) / "data_batch_1.bin") || fs::exists(fs::path(folder) / "train.bin");
}

ImageData read_cifar(const TaskRequest& r) {
  const Config& c = r.config;
  const data::ImageClasses cifar = data::read_cifar_folder(c.data.path);
  ImageData images = hold_out(cifar.train, c.data.path, c);
  if (c.data.augment) images.training.transforms = {data::random_crop(cifar_side, cifar_side, 4), data::random_flip()};
  images.test = cifar.test;
  images.classes = static_cast<int64_t>(cifar.classes.size());
  images.preprocessing = r.stored;
  if (r.stored.statistics.mean.empty())
    images.preprocessing = {.statistics = data::channel_statistics(*images.training.dataset), .classes = cifar.classes};
  return images;
}

// CIFAR's files, or images of the user's own in their size.
ImageData read_small_images(const TaskRequest& r) {
  const Config& c = r.config;
  if (c.data.path.empty())
    throw ValueError(
        "[cifar-resnet] --data is missing: the folder of CIFAR's binary files (cifar-10-batches-bin or "
        "cifar-100-binary), or a folder, a .csv or a .rec file of images");
  if (is_cifar(c.data.path)) return read_cifar(r);
  const int64_t side = cifar_side_of(c);
  ImageData images = read_pictures(r, side, 1);
  if (c.data.augment) {
    images.training.transforms = images.preprocessing.make_geometry();
    images.training.transforms.push_back(data::random_crop(side, side, 4));
    images.training.transforms.push_back(data::random_flip());
    images.cuts = true;
  }
  return images;
}

// ---- image-classifier

constexpr double evaluated_share = 0.875;  // of the shorter side; a crop at random shows things larger than they are

const nn::KnownModel& known_model(const Config& c) { return nn::find_classifier(c.model_value<Text>("name")); }

int64_t side_of(const Config& c) {
  if (c.data.image_size > 0) return c.data.image_size;
  const Shape& usual = known_model(c).input;
  return usual.rank() == 4 ? usual[2] : digit_side;
}

std::shared_ptr<nn::Module> make_known(const Config& c, const nn::ImageForm& form, DeviceContext& device) {
  return known_model(c).make_classifier(form, device);
}

ImageData read_photographs(const TaskRequest& r) {
  const int64_t side = side_of(r.config);
  ImageData images = read_pictures(r, side, evaluated_share);
  if (!r.config.data.augment) return images;
  const bool coloured = form_of(images, side).channels == 3;
  images.training.transforms = {data::random_resized_crop(side, side, 0.35), data::random_flip()};
  images.cuts = true;
  images.colours = {data::random_colour(0.3, 0.3, coloured ? 0.3 : 0)};
  return images;
}

void photograph_defaults(Config& c) {
  c.data.augment = true;
  c.data.validation = 0.2;
  c.training.epochs = 30;
  c.training.batch = 32;
  c.training.clip_norm = 1;
  c.training.label_smoothing = 0.1;
  c.training.early_stop = 8;
  c.checkpoint.use_best = true;
  c.optimizer.name = "adamw";
  c.optimizer.weight_decay = 0.05;
}

}  // namespace

Recipe mnist_mlp() {
  return {.name = "mnist-mlp",
          .help = "multilayer perceptron on 28x28 images of ten classes",
          .model = {{"hidden", Integers{128, 64}, "widths of the hidden layers"}},
          .unused = joined(ImageClassifier::unused_options(), own_data_options()),
          .defaults = [](Config& c) { c.training.epochs = 10; },
          .make =
              [](const TaskRequest& r) {
                return classifier(make_mlp(r.config, digit_form, r.device), read_digits(r.config), r);
              },
          .predictor = [](const TaskRequest& r) { return image_predictor(r, make_mlp, digit_form); },
          .network = [](const TaskRequest& r) { return image_network(r, make_mlp, digit_form); }};
}

Recipe mnist_cnn() {
  return {.name = "mnist-cnn",
          .help = "convolutional network of LeNet's kind on the same images",
          .model = lenet_model(),
          .unused = joined(ImageClassifier::unused_options(), own_data_options()),
          .defaults = lenet_defaults,
          .make =
              [](const TaskRequest& r) {
                return classifier(make_lenet(r.config, digit_form, r.device), read_digits(r.config), r);
              },
          .predictor = [](const TaskRequest& r) { return image_predictor(r, make_lenet, digit_form); },
          .network = [](const TaskRequest& r) { return image_network(r, make_lenet, digit_form); }};
}

Recipe cifar_resnet() {
  return {
      .name = "cifar-resnet",
      .help = "residual network on CIFAR-10, CIFAR-100, or small images of one's own",
      .model = {{"blocks", Integers{2, 2, 2, 2}, "of each stage; 2,2,2,2 is ResNet-18"},
                {"width", Integer{64}, "channels of the first stage"}},
      .unused = joined(ImageClassifier::unused_options(), {"data.task"}),
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
            ImageData images = read_small_images(r);
            std::shared_ptr<nn::Module> model =
                make_resnet(r.config, form_of(images, cifar_side_of(r.config)), r.device);
            return classifier(std::move(model), std::move(images), r, "fc.*");
          },
      .predictor = [](const TaskRequest& r) { return picture_predictor(r, make_resnet, cifar_side_of(r.config)); },
      .network =
          [](const TaskRequest& r) { return image_network(r, make_resnet, stored_form(r, cifar_side_of(r.config))); }};
}

Recipe image_classifier() {
  return {
      .name = "image-classifier",
      .help = "any known classifier on images of one's own: folders of classes, a .csv of paths, a .rec file",
      .model = {{"name", Text("resnet18"), "one of the classifiers of `heddle summary`"}},
      .unused = joined(ImageClassifier::unused_options(), {"data.task"}),
      .defaults = photograph_defaults,
      .make =
          [](const TaskRequest& r) {
            const std::string head = known_model(r.config).head;
            ImageData images = read_photographs(r);
            std::shared_ptr<nn::Module> model = make_known(r.config, form_of(images, side_of(r.config)), r.device);
            return classifier(std::move(model), std::move(images), r, head);
          },
      .predictor = [](const TaskRequest& r) { return picture_predictor(r, make_known, side_of(r.config)); },
      .network = [](const TaskRequest& r) { return image_network(r, make_known, stored_form(r, side_of(r.config))); }};
}

}  // namespace heddle::train
