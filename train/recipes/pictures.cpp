#include "heddle/train/recipes/pictures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/batcher.h"
#include "heddle/data/image_survey.h"
#include "heddle/data/labelled_images.h"
#include "heddle/io/weights_file.h"

namespace heddle::train {
namespace {

constexpr uint64_t order_epoch = 1;  // of the order in which a limit takes examples; the held-out part has 0

// Reads every image of a part once; leaves broken ones out where that was asked for.
data::Statistics survey(const Config& c, const std::string& what, data::LabelledSet& set, ImageData& images) {
  data::ImageSurvey found = data::survey_images(*set.dataset(3), c.data.skip_broken);
  if (found.broken.empty()) return found.statistics;
  images.remarks.push_back(fmt::format("[{}] {} of {} {} images cannot be read and are left out: {}{}", c.run.recipe,
                                       found.broken.size(), set.size(), what, found.broken[0],
                                       found.broken.size() > 1 ? " ..." : ""));
  if (set.records) {
    set.records = data::subset(set.records, found.whole);
  } else {
    std::vector<data::ImageFiles::File> whole;
    for (const int64_t i : found.whole) whole.push_back(set.files[static_cast<size_t>(i)]);
    set.files = std::move(whole);
  }
  return found.statistics;
}

// What a classifier cannot be trained on.
void check_classes(const Config& c, const data::LabelledImages& all) {
  if (all.classes.size() < 2)
    throw ValueError(fmt::format("[{}] {} has one class alone, '{}'; a classifier tells at least two apart",
                                 c.run.recipe, c.data.path, shortened(all.classes.at(0))));
  if (all.train.records) return;
  std::vector<int64_t> count(all.classes.size());
  for (const data::ImageFiles::File& file : all.train.files) ++count[static_cast<size_t>(file.label)];
  const auto none = std::ranges::find(count, 0);
  if (none != count.end())
    throw ValueError(fmt::format("[{}] {} has no image of the class '{}' that can be read", c.run.recipe, c.data.path,
                                 shortened(all.classes[static_cast<size_t>(none - count.begin())])));
}

// In an order of the seed, so that the first ones are of all classes.
void mix(data::LabelledSet& set, uint64_t seed) {
  std::vector<data::ImageFiles::File> mixed;
  for (const uint32_t i : data::shuffled_order(static_cast<int64_t>(set.files.size()), seed, order_epoch))
    mixed.push_back(set.files[i]);
  set.files = std::move(mixed);
}

// Held out where the data has no part of its own.
void split(const Config& c, bool used, data::LabelledImages& all) {
  const auto seed = static_cast<uint64_t>(c.run.seed);
  if (all.validation.empty() && c.data.validation > 0) {
    data::HeldOut parts = data::hold_out(all.train, c.data.validation, seed);
    if (parts.held_out.empty() || parts.rest.empty())
      throw ValueError(fmt::format("[{}] --validation {} holds out {} of the {} images of {}", c.run.recipe,
                                   c.data.validation, parts.held_out.size(), all.train.size(), c.data.path));
    all.train = std::move(parts.rest);
    all.validation = std::move(parts.held_out);
  }
  if (all.validation.empty() && all.test.empty()) {
    if (!used)
      throw ValueError(
          fmt::format("[{}] --validation is 0, but {} has neither a folder val nor a folder test: what is "
                      "the model to be tested on?",
                      c.run.recipe, c.data.path));
    all.test = all.train;
  }
  if (c.data.limit_train > 0) mix(all.train, seed);
  if (c.data.limit_test > 0) mix(all.validation, seed), mix(all.test, seed);
}

// Of the images that the weights were trained on: what their file says, or ImageNet's, as those of torchvision.
data::Statistics statistics_of_weights(const Config& c, std::vector<std::string>& remarks) {
  const Metadata metadata = weights_metadata(c.run.init_from);
  const auto found = metadata.find("preprocessing");
  if (found != metadata.end()) return data::Preprocessing::parse(found->second, c.run.init_from).statistics;
  remarks.push_back(
      fmt::format("[{}] {} does not say how its images were normalised: by ImageNet's mean and deviation, "
                  "as torchvision's weights",
                  c.run.recipe, c.run.init_from));
  return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
}

}  // namespace

ImageData read_pictures(const TaskRequest& r, int64_t side, double share) {
  const Config& c = r.config;
  if (c.data.path.empty())
    throw ValueError(
        fmt::format("[{}] --data is missing: a folder with a folder of images for each class, a .csv with "
                    "paths and classes, or a .rec file of `heddle pack`",
                    c.run.recipe));
  const bool used = !r.stored.classes.empty();
  data::LabelledImages all = data::read_labelled_images(
      c.data.path, {.image_column = c.data.image_column, .class_column = c.data.target, .classes = r.stored.classes});
  ImageData images;
  images.remarks = all.remarks;
  data::Statistics statistics = all.packed.statistics;
  if (c.data.skip_broken || (!used && (!all.train.records || statistics.mean.empty()))) {
    statistics = survey(c, "training", all.train, images);
    if (!all.validation.empty()) survey(c, "validation", all.validation, images);
    if (!all.test.empty()) survey(c, "test", all.test, images);
  }
  if (!used) check_classes(c, all);
  split(c, used, all);
  images.classes = static_cast<int64_t>(all.classes.size());
  images.preprocessing = r.stored;
  if (!used) {
    if (!c.run.init_from.empty() && statistics.mean.size() == 3) statistics = statistics_of_weights(c, images.remarks);
    images.preprocessing = {.transforms = {fmt::format("centre_square {} {}", side, share)},
                            .statistics = std::move(statistics),
                            .classes = all.classes};
  }
  const int channels = static_cast<int>(form_of(images, side).channels);
  images.training = {.name = c.data.path, .dataset = data::first(all.train.dataset(channels), c.data.limit_train)};
  if (!all.validation.empty()) images.validation = all.validation.dataset(channels);
  if (!all.test.empty()) images.test = all.test.dataset(channels);
  return images;
}

nn::ImageForm form_of(const ImageData& images, int64_t side) {
  return {.channels = static_cast<int64_t>(images.preprocessing.statistics.mean.size()),
          .side = side,
          .classes = images.classes};
}

}  // namespace heddle::train
