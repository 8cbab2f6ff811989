#include "heddle/train/recipes/image_classifier.h"

#include <algorithm>

#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/data/collate.h"
#include "heddle/nn/metrics.h"

namespace heddle::train {

ImageClassifier::ImageClassifier(std::shared_ptr<nn::Module> model, ImageData images, const Config& c,
                                 DeviceContext& where)
    : ImageTask(std::move(images), where),
      model_(std::move(model)),
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
  const int64_t classes = data().classes;
  nn::Mean loss(device());
  nn::ConfusionMatrix confusion(classes, device());
  nn::TopK top5(std::min<int64_t>(5, classes), device());
  for_each_batch(images, [&](const std::vector<Tensor>& batch) {
    const Tensor logits = (*model_)(batch.at(0)), &labels = batch.at(1);
    loss.add(cross_entropy(logits, labels), static_cast<double>(labels.dim(0)));
    confusion.add(argmax(logits, 1), labels);
    top5.add(logits, labels);
    see(logits, labels);
  });
  return {.loss = loss.value(),
          .examples = images->size(),
          .metrics = {{"accuracy", confusion.accuracy()}, {"f1", confusion.macro_f1()}, {"top5", top5.value()}},
          .confusion = confusion.counts()};
}

}  // namespace heddle::train
