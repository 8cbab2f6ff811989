// The small task (tests/train/small_task.h) with other networks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/train/small_task.h"

namespace heddle::train {

// The small task with a network of the test's.
class NetworkTask : public Task {
 public:
  nn::Module& model() override { return model_; }
  const TrainingData& training() const override { return small_.training(); }
  Tensor loss(const std::vector<Tensor>& batch) override { return cross_entropy(model_(batch.at(0)), batch.at(1)); }
  Evaluation evaluate(int64_t) override { return {.split = "validation", .loss = 1, .examples = 1}; }
  Metadata metadata() const override { return {}; }

 protected:
  // `make` appends the network's layers, from 5 numbers to 3.
  NetworkTask(DeviceContext& device, const std::function<void(nn::Sequential& model)>& make) : small_(1, 0, device) {
    manual_seed(1);
    make(model_);
  }

 private:
  SmallTask small_;
  nn::Sequential model_;
};

// Layers of given widths, the first 5 and the last 3.
class LayersTask final : public NetworkTask {
 public:
  LayersTask(const std::vector<int64_t>& widths, DeviceContext& device)
      : NetworkTask(device, [&](nn::Sequential& model) {
          for (size_t i = 0; i + 1 < widths.size(); ++i) {
            if (i > 0) model.append(nn::Tanh());
            model.append(nn::Linear(widths[i], widths[i + 1], {.device = device}));
          }
        }) {}
};

// Layers of matrices that factors of low rank make smaller.
inline std::unique_ptr<Task> wide_task(DeviceContext& device) {
  return std::make_unique<LayersTask>(std::vector<int64_t>{5, 64, 64, 64, 3}, device);
}

}  // namespace heddle::train
