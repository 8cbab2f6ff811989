// ImageClassifier: images of one size and their classes.
//
// Purpose: the task of mnist-mlp, mnist-cnn and cifar-resnet, and of any model from images (N, C, H, W) to logits (N, classes).
// Invariants: examples are (pixels, label i32); the evaluation is over all test images. Thread safety: none.
#pragma once

#include <memory>
#include <vector>

#include "train/task.h"

namespace heddle::train {

struct ImageData {
  TrainingData training;
  data::DatasetPtr test;
  std::vector<data::Transform> test_transforms;
  int64_t classes = 10;
};

class ImageClassifier final : public Task {
 public:
  ImageClassifier(std::shared_ptr<nn::Module> model, ImageData data, double label_smoothing, DeviceContext& device);
  nn::Module& model() override { return *model_; }
  const TrainingData& training() const override { return data_.training; }
  Tensor loss(const std::vector<Tensor>& batch) override;
  Evaluation evaluate(int64_t limit) override;

 private:
  std::shared_ptr<nn::Module> model_;
  ImageData data_;
  double label_smoothing_;
  DeviceContext& device_;
};

}  // namespace heddle::train
