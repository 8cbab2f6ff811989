// A task that trains in milliseconds: 3 classes of points in 5 dimensions, a layer with dropout, a smoothed loss.
#pragma once

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/nn/layers.h"
#include "heddle/train/task.h"

namespace heddle::train {

class SmallTask final : public Task {
 public:
  // `width`: of the hidden layers, one or, where it is above 16, two.
  SmallTask(uint64_t seed, double dropout, DeviceContext& device, int64_t width = 16)
      : device_(device), model_(made(seed, dropout, device, width)) {
    data_.name = "points";
    data_.dataset = data::generated(96, [this](int64_t index, data::Random&) {
      std::this_thread::sleep_for(example_time);
      data::Random random(7, 0, static_cast<uint64_t>(index));
      std::vector<float> point(5);
      for (float& x : point) x = random.uniform(-1, 1);
      const int32_t label = point[0] + point[1] > 0.3f ? 2 : point[2] > 0 ? 1 : 0;
      return data::Sample{data::Array::of(point, {5}), data::Array::scalar(label)};
    });
    // Chance of the loader's: a resumed run has to draw the same.
    data_.transforms = {[](data::Sample sample, data::Random& random) {
      for (float& x : sample[0].as<float>()) x += random.uniform(-0.01f, 0.01f);
      return sample;
    }};
  }
  nn::Module& model() override { return model_; }
  const TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override {
    std::this_thread::sleep_for(std::exchange(compiling_time, {}));
    return cross_entropy(model_(batch.at(0)), batch.at(1));
  }
  Evaluation evaluate(int64_t) override {
    ++evaluations;
    data::Loader loader(data_.dataset, data::sequential(96), {.batch = 96});
    data::Sample host;
    loader.next(host);
    const std::vector<Tensor> batch = data::to_tensors(host, device_);
    const double value = next_losses.empty() ? loss(batch).item()
                                             : next_losses[static_cast<size_t>(evaluations - 1) % next_losses.size()];
    return {.split = "validation", .loss = value, .examples = 96};
  }
  Evaluation test(int64_t) override {
    ++tests;
    return has_test ? Evaluation{.split = "test", .loss = 0.5, .examples = 7} : Evaluation{};
  }
  Metadata metadata() const override { return {{"classes", "three"}}; }

  std::chrono::microseconds example_time{0};    // how long each example takes to fetch
  std::chrono::milliseconds compiling_time{0};  // what the first update takes longer
  int evaluations = 0, tests = 0;
  bool has_test = false;
  std::vector<double> next_losses;  // what evaluate() says instead

 private:
  static nn::Sequential made(uint64_t seed, double dropout, DeviceContext& device, int64_t width) {
    manual_seed(seed);
    if (width == 16)
      return nn::Sequential{nn::Linear(5, 16, {.device = device}), nn::Tanh(), nn::Dropout(dropout),
                            nn::Linear(16, 3, {.device = device})};
    return nn::Sequential{nn::Linear(5, width, {.device = device}), nn::Tanh(),
                          nn::Linear(width, width, {.device = device}), nn::Tanh(),
                          nn::Linear(width, 3, {.device = device})};
  }

  DeviceContext& device_;
  nn::Sequential model_;
  TrainingData data_;
};

}  // namespace heddle::train
