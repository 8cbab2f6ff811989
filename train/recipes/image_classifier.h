// ImageClassifier: images of one size and their classes.
//
// Purpose: the task of mnist-mlp, mnist-cnn and cifar-resnet, and of any model from images (N, C, H, W) to logits (N, classes).
// Invariants: examples are (pixels u8, label i32); the evaluation is over all test images. Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/preprocess.h"
#include "train/config.h"
#include "train/task.h"

namespace heddle::train {

struct ImageData {
  TrainingData training;  // its transforms are the augmentation, on pixels u8
  data::DatasetPtr test;
  int64_t classes = 10;
  data::Preprocessing preprocessing = {};  // of training and test images; stored with the model
};

class ImageClassifier final : public Task {
 public:
  ImageClassifier(std::shared_ptr<nn::Module> model, ImageData data, const Config& config, DeviceContext& device);
  // Options that have no meaning for a recipe of this task.
  static std::vector<std::string> unused_options() { return {"data.tokenizer", "log.sample_every"}; }
  nn::Module& model() override { return *model_; }
  const TrainingData& training() const override { return data_.training; }
  Tensor loss(const std::vector<Tensor>& batch) override;
  Evaluation evaluate(int64_t limit) override;
  Metadata metadata() const override { return {{"preprocessing", data_.preprocessing.str()}}; }

  const data::Dataset& test() const { return *data_.test; }
  // Calls see(logits, labels) for batches of the first `images` test images, in order.
  void for_each_test_batch(int64_t images, const std::function<void(const Tensor& logits, const Tensor& labels)>& see);

 private:
  std::shared_ptr<nn::Module> model_;
  ImageData data_;
  double label_smoothing_;
  bool mixes_;  // mixup: a training example has its share as a third array
  DeviceContext& device_;
};

}  // namespace heddle::train
