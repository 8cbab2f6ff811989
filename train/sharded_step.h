// ShardedStep: an update that ranks take together, each of the elements that it owns (ZeRO's stages 1 and 2).
//
// Purpose: an element's optimizer state is on one rank. Ranks send gradients to the elements' owners, who take the
// means over the batch and update, and the owners send new parameters to all: 2 (N-1)/N of the gradients' bytes, as
// without shards. Stage 1 reads all gradients at once; stage 2 reads, and lets go of, one bucket of them after the
// other, so that beside its own the host holds two. Invariants: all ranks have the same parameters, bit by bit,
// whatever their devices; sums are those of SharedGradients, bit by bit, and norms are of the whole, added in double
// precision in the order of elements, then of ranks. Errors: those of what is recorded, of the device, and of
// distributed/errors.h; ValueError where copies of gradients are asked for, which no rank has. Thread safety: none.
#pragma once

#include <functional>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"
#include "heddle/train/config.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/replicas.h"
#include "heddle/train/sharded_gradients.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

// Whether an update of `config` is a ShardedStep's: several ranks, and asked for. ValueError for stage 3.
bool shares_states(const Config& config, const Replicas* replicas);

class ShardedStep {
 public:
  // What is recorded of an update besides.
  struct Parts {
    std::function<std::vector<Tensor>(const std::vector<Tensor>& part)> gradients;  // backward(); what is averaged
    std::function<void(const std::vector<Tensor>& averages)> look;                  // at what was averaged
    std::function<void()> updated;                                                  // behind the optimizers' update
    std::function<void()> gathered;                                                 // behind the parameters' arrival
  };
  // All outlive the step. The optimizers keep shards from now on.
  ShardedStep(nn::Module& model, Optimizers& optimizers, const Config& config, DeviceContext& device,
              Replicas& replicas, Parts parts);
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  // One update by this rank's part of a batch; gives what any rank wishes. `meanwhile`, if any, is called when the
  // device has its work.
  Wishes submit(const std::vector<Tensor>& part, const Wishes& mine, const Callable<void()>& meanwhile);

  const ShardLayout& layout() const { return shared_.layout(); }

 private:
  std::vector<Tensor> record_part(const std::vector<Tensor>& part);
  Tensor record_update(const Tensor& own, const Tensor& rest);
  void reduce(std::vector<Tensor> lists);
  Wishes average_rest(std::vector<float>& rest, const Wishes& mine);
  void gather();
  std::vector<float> bucket_of(size_t bucket) const;

  Optimizers& optimizers_;
  DeviceContext& device_;
  Replicas& replicas_;
  Parts parts_;
  ShardedGradients shared_;
  std::vector<float> own_;  // gradients, then parameters, of the shards; never empty
  std::function<std::vector<Tensor>(const std::vector<Tensor>& part)> compiled_part_;
  std::function<Tensor(const Tensor& own, const Tensor& rest)> compiled_update_;
  std::vector<std::function<void(const Tensor& list)>> compiled_gathered_;  // by bucket
};

}  // namespace heddle::train
