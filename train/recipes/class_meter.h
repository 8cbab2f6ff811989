// What the evaluation of a classifier measures, and what it says of single examples.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/nn/metrics.h"
#include "heddle/train/task.h"

namespace heddle::train {

class ClassMeter {
 public:
  ClassMeter(int64_t classes, DeviceContext& device);
  // Logits (N, classes) and labels (N).
  void add(const Tensor& logits, const Tensor& labels);
  // Loss, accuracy, F1, top 5 and the confusion matrix; of this many examples.
  Evaluation result(int64_t examples) const;

 private:
  nn::Mean loss_;
  nn::ConfusionMatrix confusion_;
  nn::TopK top5_;
};

// Classes and probabilities of all examples of a dataset, as an evaluation sees them; `prediction` has neither file nor
// label yet. IoError where the model's last layer has another number of classes.
void predict_classes(nn::Module& model, const data::DatasetPtr& examples,
                     const std::vector<data::Transform>& transforms, const std::vector<std::string>& classes,
                     DeviceContext& device,
                     const Callable<void(int64_t index, int32_t label, Prediction prediction)>& see);

// Names of classes, "0", "1", ... where there are none.
std::vector<std::string> class_names(const std::vector<std::string>& names, int64_t classes);

}  // namespace heddle::train
