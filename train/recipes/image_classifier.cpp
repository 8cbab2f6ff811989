#include "heddle/train/recipes/image_classifier.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/glob.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/data/collate.h"
#include "heddle/data/image_file.h"
#include "heddle/nn/weights.h"
#include "heddle/train/recipes/class_meter.h"

namespace heddle::train {

ImageClassifier::ImageClassifier(std::shared_ptr<nn::Module> model, ImageData images, const Config& c,
                                 DeviceContext& where, std::string head)
    : ImageTask(std::move(images), where),
      model_(std::move(model)),
      head_(std::move(head)),
      label_smoothing_(c.training.label_smoothing),
      mixes_(c.data.mixup > 0) {
  if (mixes_) data().training.transforms.push_back(data::append_mixup_share(c.data.mixup));
}

Tensor ImageClassifier::loss(const std::vector<Tensor>& batch) {
  Tensor images = batch.at(0), targets = batch.at(1);
  if (mixes_) {
    data::Mixed mixed = data::mixup(images, targets, data().classes, batch.at(2));
    images = std::move(mixed.images);
    targets = std::move(mixed.targets);
  }
  CrossEntropyOptions options;
  options.label_smoothing = label_smoothing_;
  return cross_entropy((*model_)(images), targets, options);
}

Evaluation ImageClassifier::measure(const data::DatasetPtr& images,
                                    const std::function<void(const Tensor&, const Tensor&)>& see) {
  ClassMeter meter(data().classes, device());
  for_each_batch(images, [&](const std::vector<Tensor>& batch) {
    const Tensor logits = (*model_)(batch.at(0)), &labels = batch.at(1);
    meter.add(logits, labels);
    see(logits, labels);
  });
  return meter.result(images->size());
}

bool ImageClassifier::predict(int64_t limit, const Callable<void(const Prediction& prediction)>& see) {
  const data::DatasetPtr& images = tested();
  const auto* files = dynamic_cast<const data::ImageFiles*>(images.get());
  const std::vector<std::string> names = class_names(data().preprocessing.classes, data().classes);
  predict_classes(*model_, data::first(images, limit), data().preprocessing.make_transforms(), names, device(),
                  [&](int64_t index, int32_t label, Prediction prediction) {
                    prediction.file = files != nullptr ? files->path(index) : std::to_string(index);
                    prediction.label = names.at(static_cast<size_t>(label));
                    see(prediction);
                  });
  return true;
}

void ImageClassifier::begin_with(const nn::StateDict& given) {
  const nn::StateDict state = nn::from_torchvision(given);
  int64_t classes = -1;  // of the state's last layer, where it is another number
  for (const auto& [name, own] : model_->state_dict()) {
    const auto found = state.find(name);
    const bool differs = !head_.empty() && fits_pattern(name, head_) && found != state.end() &&
                         found->second.rank() > 0 && found->second.shape() != own.shape();
    if (differs) classes = found->second.dim(0);
  }
  if (classes < 0) return model_->load_state_dict(state);
  const nn::LoadReport report = nn::load_matching(*model_, state, {head_});
  for (const std::vector<std::string>* wrong : {&report.mismatched, &report.missing, &report.unexpected}) {
    if (!wrong->empty())
      throw ValueError(
          fmt::format("[init-from] the weights do not fit the model: {} of its tensors do, but '{}' does "
                      "not; is it another model?",
                      report.loaded.size(), wrong->front()));
  }
  data().remarks.push_back(
      fmt::format("[init-from] the weights are for {} classes and the data has {}: the last layer, "
                  "{}, begins anew",
                  classes, data().classes, head_));
}

}  // namespace heddle::train
