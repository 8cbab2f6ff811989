#include "heddle/train/recipes/digits.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/data/datasets.h"
#include "heddle/data/labelled_images.h"
#include "heddle/data/transforms.h"
#include "heddle/nn/models/lenet.h"

namespace heddle::train {

namespace {

ImageData read_digit_records(const Config& c) {
  const data::LabelledImages all = data::read_labelled_images(c.data.path);
  data::Random random(0, 0, 0);
  const Shape shape = all.train.records->get(0, random)[0].shape;
  if (shape != Shape{1, digit_side, digit_side} || all.classes.size() > 10)
    throw IoError(fmt::format("[{}] {}: images are {} of {} classes, expected {} of 10", c.run.recipe, c.data.path,
                              shape.str(), all.classes.size(), Shape{1, digit_side, digit_side}.str()));
  if (c.data.validation == 0)
    throw ValueError(fmt::format("[{}] --validation is 0, but {} holds no test images", c.run.recipe, c.data.path));
  ImageData digits = hold_out(all.train.records, c.data.path, c);
  digits.preprocessing.classes = all.classes.size() == 10 ? all.packed.classes : std::vector<std::string>{};
  return digits;
}

}  // namespace

ImageData read_digits(const Config& c) {
  if (c.data.path.ends_with(".rec")) {
    ImageData digits = read_digit_records(c);
    if (c.data.augment) digits.training.transforms.push_back(data::random_crop(digit_side, digit_side, 2));
    return digits;
  }
  const data::Split split = c.data.path.empty() ? data::stroke_digits() : data::read_mnist_folder(c.data.path);
  if (split.train.rows != digit_side || split.train.columns != digit_side) {
    throw IoError(fmt::format("[{}] {}: images are {}x{}, expected {}x{}", c.run.recipe, split.name, split.train.rows,
                              split.train.columns, digit_side, digit_side));
  }
  if (split.test.size() == 0) throw IoError(fmt::format("[{}] {}: there are no test images", c.run.recipe, split.name));
  ImageData digits = hold_out(data::dataset_of(split.train), split.name, c);
  if (c.data.augment) digits.training.transforms.push_back(data::random_crop(digit_side, digit_side, 2));
  digits.test = data::dataset_of(split.test);
  digits.classes = split.train.classes;
  return digits;
}

std::vector<ModelOption> lenet_model() {
  return {{"stages", Integers{16, 32, 64}, "channels of the stages; each halves the image"},
          {"hidden", Integer{128}, "width of the hidden linear layer"},
          {"dropout", Number{0.25}, "before the last layer"}};
}

std::shared_ptr<nn::Module> make_lenet(const Config& c, const nn::ImageForm& form, DeviceContext& device) {
  const nn::LeNetOptions options{.channels = form.channels,
                                 .height = form.side,
                                 .width = form.side,
                                 .stages = c.model_value<Integers>("stages"),
                                 .hidden = c.model_value<Integer>("hidden"),
                                 .classes = form.classes,
                                 .dropout = c.model_value<Number>("dropout")};
  return std::make_shared<nn::LeNet>(options, nn::ParameterOptions{.device = device});
}

void lenet_defaults(Config& c) {
  c.training.epochs = 5;
  c.training.batch = 64;
  c.data.augment = true;
  c.optimizer.name = "adamw";
  c.optimizer.lr = 4e-3;
  c.optimizer.weight_decay = 0.02;
  c.schedule.name = "one-cycle";
}

}  // namespace heddle::train
