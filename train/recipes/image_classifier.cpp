#include "train/recipes/image_classifier.h"

#include <algorithm>

#include "core/graph/functions.h"
#include "core/graph/functions_losses.h"
#include "data/collate.h"
#include "nn/metrics.h"
#include "train/recipes/batches.h"

namespace heddle::train {
namespace {

constexpr int64_t evaluation_batch = 500;

}  // namespace

ImageClassifier::ImageClassifier(std::shared_ptr<nn::Module> model, ImageData data, const Config& c, DeviceContext& device)
    : model_(std::move(model)), data_(std::move(data)), label_smoothing_(c.training.label_smoothing), mixes_(c.data.mixup > 0), device_(device) {
  for (data::Transform& transform : data_.preprocessing.make_transforms()) data_.training.transforms.push_back(std::move(transform));
  if (mixes_) data_.training.transforms.push_back(data::append_mixup_share(c.data.mixup));
}

Tensor ImageClassifier::loss(const std::vector<Tensor>& batch) {
  Tensor images = batch.at(0), targets = batch.at(1);
  if (mixes_) {
    data::Mixed mixed = data::mixup(images, targets, data_.classes, batch.at(2));
    images = std::move(mixed.images);
    targets = std::move(mixed.targets);
  }
  CrossEntropyOptions options;
  options.label_smoothing = label_smoothing_;
  return cross_entropy((*model_)(images), targets, options);
}

void ImageClassifier::for_each_test_batch(int64_t images, const std::function<void(const Tensor&, const Tensor&)>& see) {
  for_each_batch(data::first(data_.test, images), evaluation_batch, data_.preprocessing.make_transforms(), device_,
                 [&](const std::vector<Tensor>& batch) { see((*model_)(batch.at(0)), batch.at(1)); });
}

Evaluation ImageClassifier::evaluate(int64_t limit) {
  const int64_t images = data::first(data_.test, limit)->size();
  nn::Mean loss(&device_);
  nn::ConfusionMatrix confusion(data_.classes, &device_);
  nn::TopK top5(std::min<int64_t>(5, data_.classes), &device_);
  for_each_test_batch(images, [&](const Tensor& logits, const Tensor& labels) {
    loss.add(cross_entropy(logits, labels), static_cast<double>(labels.dim(0)));
    confusion.add(argmax(logits, 1), labels);
    top5.add(logits, labels);
  });
  return {.split = "test",
          .loss = loss.value(),
          .examples = images,
          .metrics = {{"accuracy", confusion.accuracy()}, {"f1", confusion.macro_f1()}, {"top5", top5.value()}},
          .confusion = confusion.counts()};
}

}  // namespace heddle::train
