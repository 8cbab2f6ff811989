// BatchParts: the parts of one size that a batch is computed in under --parts, some of them by each rank.
//
// Purpose: 1, 2, 4 ... ranks give the same bits on devices of one kind. Each part is computed by itself, by the same
// compiled function, from the same parameters and buffers, with masks and other chance of its own: numbers are drawn
// by the run's seed, the update and the part's place in the whole batch. What comes of parts is added by a balanced
// binary tree, within a rank (SharedStep by the device, ShardedStep by train/part_sum.h) and over ranks
// (distributed/reduce.h). Without --parts a rank's batch
// is one part, and chance is the process's. Errors: ValueError for a number of parts that is no power of two or that
// ranks or the batch do not divide by, and for what depends on which examples a rank has. Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/data/array.h"
#include "heddle/nn/module.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

// Of a batch's parts those of each rank, all as many; 1 without --parts. Null: one process.
size_t parts_of_rank(const Config& config, const Replicas* replicas);

// The arrays of so many parts of equal size, behind each other. ValueError for arrays whose rows do not divide.
data::Sample in_parts(const data::Sample& batch, size_t parts);

class BatchParts {
 public:
  // All outlive it.
  BatchParts(const nn::Module& model, const Config& config, const Replicas& replicas);

  bool wanted() const { return wanted_; }
  size_t count() const { return count_; }  // of this rank
  // What counts for the update of what one part gives.
  double weight() const { return weight_; }
  // Whether an update takes the norm of all gradients, and at which magnitude an element is cut first; 0: nowhere.
  bool takes_norm() const { return takes_norm_; }
  double clip_value() const { return clip_value_; }

  // Of a feed's batch the tensors of each of the rank's parts.
  std::vector<std::vector<Tensor>> split(const std::vector<Tensor>& batch) const;
  // The update that follows, from 0.
  void begin(int64_t step) { step_ = step; }
  // Calls `run` for each part, in order.
  void each(const std::vector<Tensor>& batch, const Callable<void(const std::vector<Tensor>& part, bool last)>& run);

  // Buffers of floats as they are, for restore() behind the forward pass: each part begins with the same ones, and so
  // does an update that is taken again because a rank was lost. Record; otherwise there are none to keep.
  std::vector<Tensor> buffers() const;
  void restore(const std::vector<Tensor>& buffers) const;

 private:
  const nn::Module& model_;
  bool wanted_;
  bool keeps_buffers_;  // an update that is not taken leaves them as they were
  size_t count_;
  int64_t first_;  // of the rank
  double weight_, clip_value_;
  bool takes_norm_;
  uint64_t seed_;
  int64_t step_ = 0;
  Generator chance_;
};

}  // namespace heddle::train
