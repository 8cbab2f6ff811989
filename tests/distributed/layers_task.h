// The small task with another network: layers of given widths, the first 5 and the last 3.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/train/small_task.h"

namespace heddle::train {

class LayersTask final : public Task {
 public:
  LayersTask(const std::vector<int64_t>& widths, DeviceContext& device) : small_(1, 0, device) {
    manual_seed(1);
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      if (i > 0) model_.append(nn::Tanh());
      model_.append(nn::Linear(widths[i], widths[i + 1], {.device = device}));
    }
  }
  nn::Module& model() override { return model_; }
  const TrainingData& training() const override { return small_.training(); }
  Tensor loss(const std::vector<Tensor>& batch) override { return cross_entropy(model_(batch.at(0)), batch.at(1)); }
  Evaluation evaluate(int64_t) override { return {.split = "validation", .loss = 1, .examples = 1}; }
  Metadata metadata() const override { return {}; }

 private:
  SmallTask small_;
  nn::Sequential model_;
};

}  // namespace heddle::train
