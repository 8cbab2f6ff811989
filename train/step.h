// TrainingStep: forward, backward, accumulation, clipping, update and average of one update, compiled.
//
// Purpose: submit() hands one forward and backward pass to the device and does not wait. What is to be known of the
// updates since the last take(), losses and gradient norms, is collected on the device, in tensors whose place never
// changes: so every step is the same recording, and a window is read at once. Accumulation: an update's examples come
// as one batch and are computed in parts (nn/accumulate.h): equal to the large batch up to rounding, where the loss is
// a mean over examples and the model has no batch statistics. Errors: those of the model and of the device. Thread
// safety: none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/compile/compile.h"
#include "heddle/nn/average.h"
#include "heddle/train/config.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/replicas.h"
#include "heddle/train/shared_gradients.h"
#include "heddle/train/task.h"

namespace heddle::train {

class TrainingStep {
 public:
  static constexpr int64_t window = 50;  // updates that fit between two take()s

  // `average` may be null, and `replicas`, the ranks that share each batch.
  TrainingStep(Task& task, Optimizers& optimizers, nn::ExponentialAverage* average, const Config& config,
               DeviceContext& device, Replicas* replicas = nullptr);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // One update by a batch of training.batch * training.accumulate examples. `keep` copies its gradients first, for
  // gradients().
  void submit(const std::vector<Tensor>& batch, bool keep = false);

  // What ranks ask for; what one does all do.
  struct Wishes {
    bool stop = false, interrupt = false;
  };
  // The same of a batch's part on each rank: gradients are averaged between, which waits for all. Gives what any rank
  // asked for.
  Wishes submit_part(const std::vector<Tensor>& part, bool keep, const Wishes& mine);
  // Parameters and floating buffers become the first rank's.
  void follow_first();
  // Of the last update that kept them, before clipping (under a loss scale: of the scaled loss), in the order of the
  // model's parameters.
  const std::vector<Tensor>& gradients() const { return gradients_; }

  // Loss and gradients of a batch once more, by the weights as they are, without an update: where numbers first cease
  // to be finite, "the weight NAME", "the output of MODULE", "the loss" or "the gradient of NAME"; empty: nowhere.
  std::string first_not_finite(const std::vector<Tensor>& batch);

  // Updates since the last take().
  int64_t open() const { return open_; }
  struct Results {
    std::vector<float> losses;
    std::vector<float> norms;          // empty without clip_norm
    std::optional<double> loss_scale;  // of f16 training, as it is now
    std::optional<int64_t> skipped;    // updates left out so far, because a gradient was infinite or NaN
    // Of Task::names_of_step(); empty where updates are accumulated.
    std::vector<std::pair<std::string, std::vector<float>>> figures;
  };
  // Waits for the device.
  Results take();

 private:
  Tensor forward(const std::vector<Tensor>& batch);
  Tensor differentiate(const std::vector<Tensor>& batch);
  void record(const std::vector<Tensor>& batch, int64_t keeping);
  Tensor record_part(const std::vector<Tensor>& part);
  void record_update(const Tensor& means, int64_t keeping);
  void update(const Tensor& loss, const std::vector<Tensor>& figures, int64_t keeping);
  void prepare_gradients();
  std::vector<float> shared_means(const std::vector<Tensor>& part, const Wishes& mine, Wishes& all);
  void keep_gradients();
  void keep(Tensor& list, const Tensor& value);

  Task& task_;
  Optimizers& optimizers_;
  nn::ExponentialAverage* average_;
  DeviceContext& device_;
  int64_t accumulate_;
  std::optional<DType> low_;  // of products, in mixed precision
  bool clips_;
  int64_t open_ = 0;
  Tensor losses_, norms_;  // (window)
  std::vector<std::string> figure_names_;
  std::vector<Tensor> figures_;  // (window) each
  std::vector<Tensor> gradients_;
  std::function<void(const std::vector<Tensor>& batch, int64_t keeping)> compiled_;
  Replicas* replicas_;
  SharedGradients shared_;
  std::function<Tensor(const std::vector<Tensor>& part)> compiled_part_;
  std::function<void(const Tensor& means, int64_t keeping)> compiled_update_;
  std::function<Tensor()> compiled_weights_;
  std::function<void(const Tensor& weights)> compiled_follow_;
};

}  // namespace heddle::train
