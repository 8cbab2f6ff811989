// MeshStep: an update by ranks that have parts of a model: gradients of this rank's part of the model for its part of
// the batch, their mean over the ranks with the same part, the norm of all, the update.
//
// Purpose: what SharedStep is where ranks share batches alone. Forward and backward pass are a program of ranks, whose
// collectives are made while it runs (core/graph/mesh_scope.h), or a pipeline of such programs; the update is compiled.
// Invariants: gradients of what several ranks have are the same bits on all of them, and so are parameters: sums have
// one order, and the norm is one number (devices are of one kind: Trainer refuses others). Under --parts lists of a
// rank's parts are added by a balanced tree, over the rank's own first (train/part_sum.h), then over the ranks; of
// experts, whose gradients a rank has for the rows of each rank along ep, over those. So parameters are the same bits
// wherever experts lie. Errors: those of PartedModel. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/train/batch_parts.h"
#include "heddle/train/config.h"
#include "heddle/train/model_parallel/parted_model.h"
#include "heddle/train/shared_step.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

class Optimizers;

class MeshStep {
 public:
  // All outlive the step. `batch`: null without --parts.
  MeshStep(PartedModel& model, const Optimizers& optimizers, const Config& config, BatchParts* batch,
           SharedStep::Parts parts);
  MeshStep(const MeshStep&) = delete;
  MeshStep& operator=(const MeshStep&) = delete;

  // One update by this rank's part of a batch; gives what any rank wishes. `meanwhile`, if any, is called when the
  // gradients are there.
  Wishes submit(const std::vector<Tensor>& batch, const Wishes& mine, const Callable<void()>& meanwhile);

 private:
  struct Place {
    size_t parameter, begin, count;  // of the list
  };
  using Which = Callable<bool(const Place& place)>;
  std::vector<float> gradients_of(const std::vector<Tensor>& batch);
  std::vector<float> gradients_of_parts(const std::vector<Tensor>& batch);
  Tensor packed(const std::vector<Tensor>& averages);
  std::vector<float> added_over_senders(const std::vector<float>& list);
  void add_over(distributed::Group& ranks, std::vector<float>& list, const Which& which, size_t averages);
  void add_over_batches(std::vector<float>& list);
  void add_over_data(std::vector<float>& list);
  void add_over_positions(std::vector<float>& list);
  void add_tied(std::vector<float>& list);
  double norm_of(const std::vector<float>& list);
  double exact_norm_of(const std::vector<float>& list);
  Wishes agree(const Wishes& mine);
  void record_update(const Tensor& list);

  PartedModel& model_;
  BatchParts* const batch_;
  SharedStep::Parts parts_;
  const double weight_;  // of the batch's examples this rank's share, or a part's
  const bool takes_norm_;
  const double clip_value_;
  const uint64_t memory_budget_;
  std::vector<Place> places_;
  size_t averages_ = 1;  // numbers behind the gradients: the loss, figures of the step
  std::function<void(const Tensor& list)> compiled_update_;
};

}  // namespace heddle::train
