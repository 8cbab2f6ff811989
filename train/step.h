// TrainingStep: forward, backward, accumulation, clipping, update and average of one update, compiled.
//
// Purpose: submit() hands one forward and backward pass to the device and does not wait. What is to be known of the
// updates since the last take(), losses and gradient norms, is collected on the device, in tensors whose place never
// changes: so every step is the same recording, and a window is read at once. Accumulation: an update's examples come
// as one batch and are computed in parts (nn/accumulate.h): equal to the large batch up to rounding, where the loss is
// a mean over examples and the model has no batch statistics. Ranks share each batch (shared_step.h), which --parts
// cuts (batch_parts.h), or the model as well (model_parallel/mesh_step.h); one process alone without parts takes an
// update in one submission. Errors: those of the model and of the device, and of distributed/errors.h. Thread safety:
// none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/nn/average.h"
#include "heddle/train/batch_parts.h"
#include "heddle/train/compressed_step.h"
#include "heddle/train/config.h"
#include "heddle/train/model_parallel/mesh_step.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/replicas.h"
#include "heddle/train/sharded_step.h"
#include "heddle/train/shared_step.h"
#include "heddle/train/task.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

class TrainingStep {
 public:
  static constexpr int64_t window = 50;  // updates that fit between two take()s

  // `average` may be null, and `replicas`, as a world of one; all outlive it.
  TrainingStep(Task& task, Optimizers& optimizers, nn::ExponentialAverage* average, const Config& config,
               DeviceContext& device, Replicas* replicas = nullptr);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // The update that the next submit() is, from 0: under --parts its chance goes by it.
  void begin(int64_t step) {
    if (batch_parts_) batch_parts_->begin(step);
  }
  // One update by a batch of training.batch * training.accumulate examples, of several ranks by this one's part of it.
  // `keep` copies its gradients first, for gradients(). Gives what any rank wishes. Ranks wait for each other:
  // `meanwhile` is called when the device has its work.
  Wishes submit(const std::vector<Tensor>& batch, bool keep, const Wishes& mine = {},
                const Callable<void()>& meanwhile = {});
  // Where ranks share parameters; null otherwise.
  ShardedParameters* parameters() { return sharded_ ? sharded_->parameters() : nullptr; }
  // What this rank owns, where ranks share states.
  std::vector<nn::Shard> shards() const {
    return sharded_ ? sharded_->layout().shards_of(replicas_->owner()) : std::vector<nn::Shard>();
  }
  // Parameters and floating buffers become the first rank's.
  void follow_first();
  // Ranks share out batches otherwise now (train/balance.h): the next update counts this rank's part as what it is.
  void share();
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

  // Share of the time of communication that passed while the device computed; 0 of one process.
  double communication_hidden() const { return shared_ ? shared_->hidden_time().share() : 0; }

 private:
  Tensor forward(const std::vector<Tensor>& batch);
  Tensor differentiate(const std::vector<Tensor>& batch);
  void record(const std::vector<Tensor>& batch, int64_t keeping);
  std::vector<std::vector<Tensor>> parts_of(const std::vector<Tensor>& batch) const;
  std::vector<Tensor> gradients_and_scalars(const std::vector<Tensor>& part);
  SharedStep::Parts parts();
  ShardedStep::Parts parts_of_sharded();
  void look(const Tensor& loss, const std::vector<Tensor>& figures);
  void update(const Tensor& loss, const std::vector<Tensor>& figures, int64_t keeping, const Tensor& norm = {});
  void prepare_gradients();
  void keep_gradients();
  void keep(Tensor& list, const Tensor& value);

  Task& task_;
  Optimizers& optimizers_;
  nn::ExponentialAverage* average_;
  const Config& config_;
  DeviceContext& device_;
  Replicas* const replicas_;
  int64_t accumulate_;
  std::optional<DType> low_;  // of products, in mixed precision
  bool clips_;
  int64_t open_ = 0;
  Tensor losses_, norms_;  // (window)
  std::vector<std::string> figure_names_;
  std::vector<Tensor> figures_;  // (window) each
  std::vector<Tensor> gradients_;
  std::function<void(const std::vector<Tensor>& batch, int64_t keeping)> compiled_;
  std::optional<BatchParts> batch_parts_;     // of several ranks, or where they are asked for
  std::optional<SharedStep> shared_;          // as well
  std::optional<ShardedStep> sharded_;        // where ranks share states as well; it takes the updates
  std::optional<CompressedStep> compressed_;  // where gradients travel compressed; it takes the updates
  std::optional<MeshStep> mesh_;              // where ranks have parts of the model, instead of all of these
};

}  // namespace heddle::train
