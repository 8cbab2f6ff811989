// What classifiers of images say of files.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/path.h"
#include "heddle/data/image_file.h"
#include "heddle/data/image_survey.h"
#include "heddle/train/recipes/class_meter.h"
#include "heddle/train/recipes/pictures.h"

namespace heddle::train {
namespace {

using Files = std::vector<data::ImageFiles::File>;

// Of folders the images in them, in the order of their names.
Files list_files(const std::vector<std::string>& paths) {
  Files files;
  for (const std::string& path : paths) {
    std::error_code code;
    if (!fs::is_directory(path, code)) {
      files.push_back({path, -1});
      continue;
    }
    const size_t before = files.size();
    for (const std::string& file : files_below(path, code)) {
      if (data::is_image_name(file)) files.push_back({file, -1});
    }
    if (code) throw IoError(fmt::format("[predict] {}: {}", path, code.message()));
    if (files.size() == before) throw IoError(fmt::format("[predict] {}: no .png, .jpg or .jpeg file in it", path));
  }
  return files;
}

class ImagePredictor final : public Predictor {
 public:
  ImagePredictor(std::shared_ptr<nn::Module> model, const data::Preprocessing& preprocessing, const nn::ImageForm& form,
                 DeviceContext& device)
      : model_(std::move(model)), preprocessing_(preprocessing), form_(form), device_(device) {}
  nn::Module& model() override { return *model_; }

  void predict(const std::vector<std::string>& paths, const PredictOptions& options,
               const Callable<void(const Prediction&)>& see) override {
    Files files = list_files(paths);
    if (options.skip_broken) leave_out_broken(files);
    if (files.empty()) throw ValueError("[predict] none of the files can be read");
    const auto images = std::make_shared<data::ImageFiles>(files, static_cast<int>(form_.channels));
    const auto checked = data::generated(images->size(), [this, images](int64_t i, data::Random& random) {
      data::Sample sample = images->get(i, random);
      check_size(sample[0].shape, images->path(i));
      return sample;
    });
    predict_classes(*model_, checked, preprocessing_.make_transforms(),
                    class_names(preprocessing_.classes, form_.classes), device_,
                    [&](int64_t index, int32_t, Prediction prediction) {
                      prediction.file = images->path(index);
                      see(prediction);
                    });
  }
  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  // A model that was trained on images of one size takes no others.
  void check_size(const Shape& shape, const std::string& path) const {
    const bool fits = !preprocessing_.transforms.empty() || (shape[1] == form_.side && shape[2] == form_.side);
    if (!fits)
      throw IoError(fmt::format("[predict] {}: {} x {} pixels; the model takes images of {} x {}", path, shape[2],
                                shape[1], form_.side, form_.side));
  }
  void leave_out_broken(Files& files) {
    const data::ImageSurvey survey =
        data::survey_images(data::ImageFiles(files, static_cast<int>(form_.channels)), true);
    if (survey.broken.empty()) return;
    remarks_.push_back(fmt::format("[predict] {} of {} files cannot be read and are left out: {}{}",
                                   survey.broken.size(), files.size(), survey.broken[0],
                                   survey.broken.size() > 1 ? " ..." : ""));
    Files whole;
    for (const int64_t i : survey.whole) whole.push_back(files[static_cast<size_t>(i)]);
    files = std::move(whole);
  }

  std::shared_ptr<nn::Module> model_;
  data::Preprocessing preprocessing_;
  nn::ImageForm form_;
  DeviceContext& device_;
  std::vector<std::string> remarks_;
};

}  // namespace

std::unique_ptr<Predictor> image_predictor(const TaskRequest& r, ImageNetwork network, const nn::ImageForm& form) {
  return std::make_unique<ImagePredictor>(network(r.config, form, r.device), r.stored, form, r.device);
}

Network image_network(const TaskRequest& r, ImageNetwork network, const nn::ImageForm& form) {
  return {network(r.config, form, r.device), Shape{1, form.channels, form.side, form.side}};
}

nn::ImageForm stored_form(const TaskRequest& r, int64_t side) {
  const size_t channels = r.stored.statistics.mean.size();
  if (r.stored.classes.empty() || (channels != 1 && channels != 3))
    throw IoError(
        fmt::format("[model] the model of {} holds neither names of classes nor how its images are "
                    "normalised; not written by heddle train",
                    r.config.run.recipe));
  return {.channels = static_cast<int64_t>(channels),
          .side = side,
          .classes = static_cast<int64_t>(r.stored.classes.size())};
}

std::unique_ptr<Predictor> picture_predictor(const TaskRequest& r, ImageNetwork network, int64_t side) {
  return image_predictor(r, network, stored_form(r, side));
}

}  // namespace heddle::train
