// ImageClassifier: images of one size and their classes.
//
// Purpose: the task of mnist-mlp, mnist-cnn and cifar-resnet, and of any model from images (N, C, H, W) to logits (N,
// classes). Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/train/recipes/image_task.h"

namespace heddle::train {

class ImageClassifier : public ImageTask {
 public:
  // `head`: the pattern of the last layer's parameters, which begin anew where other weights are for other classes;
  // empty: all weights have to fit.
  ImageClassifier(std::shared_ptr<nn::Module> model, ImageData data, const Config& config, DeviceContext& device,
                  std::string head = "");
  // Options that have no meaning for a recipe of this task.
  static std::vector<std::string> unused_options() { return {"data.tokenizer", "log.sample_every"}; }
  nn::Module& model() override { return *model_; }
  Tensor loss(const std::vector<Tensor>& batch) override;
  bool predict(int64_t limit, const Callable<void(const Prediction& prediction)>& see) override;
  void begin_with(const nn::StateDict& state) override;

 protected:
  Evaluation measure(const data::DatasetPtr& images) override {
    return measure(images, [](const Tensor&, const Tensor&) {});
  }
  // The same; shows each batch's logits and labels to `see`.
  Evaluation measure(const data::DatasetPtr& images,
                     const std::function<void(const Tensor& logits, const Tensor& labels)>& see);

 private:
  std::shared_ptr<nn::Module> model_;
  std::string head_;
  double label_smoothing_;
  bool mixes_;  // mixup: a training example has its share as a third array
};

}  // namespace heddle::train
