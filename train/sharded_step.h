// ShardedStep: an update that ranks take together, each of the elements that it owns (ZeRO's stages 1 to 3).
//
// Purpose: an element's optimizer state is on one rank. Ranks send gradients to the elements' owners, who take the
// means over the batch and update, and the owners send new parameters to all: 2 (N-1)/N of the gradients' bytes, as
// without shards. Stage 1 reads all gradients at once. Stage 2 reads, and lets go of, one bucket of them as soon as the
// backward pass has it, so that the device holds two and the host, beside its own, two (or 4 MiB). Of a batch in parts
// both read all gradients at once. Stage 3 does so bucket by bucket in any case, and nobody is sent new parameters:
// they are gathered for who reads them (train/sharded_parameters.h), which is 3 (N-1)/N of the gradients' bytes.
// Invariants: all ranks have the same parameters, bit by bit, whatever their devices; sums are those of
// SharedGradients, bit by bit, and norms are of the whole, added in double precision in the order of elements, then of
// ranks (of a batch in parts: without rounding). Errors: those of what is recorded, of the device, and of
// distributed/errors.h; ValueError where copies of gradients are asked for, which no rank has. Thread safety: none.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"
#include "heddle/train/batch_parts.h"
#include "heddle/train/config.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/part_sum.h"
#include "heddle/train/replicas.h"
#include "heddle/train/sharded_gradients.h"
#include "heddle/train/sharded_parameters.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

// Whether an update of `config` is a ShardedStep's: several ranks, and asked for.
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
              Replicas& replicas, BatchParts& batch, Parts parts);
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  // One update by this rank's part of a batch; gives what any rank wishes. `meanwhile`, if any, is called when the
  // device has its work.
  Wishes submit(const std::vector<Tensor>& part, const Wishes& mine, const Callable<void()>& meanwhile);

  const ShardLayout& layout() const { return shared_.layout(); }
  // Of stage 3; null otherwise.
  ShardedParameters* parameters() { return parameters_ ? &*parameters_ : nullptr; }

 private:
  std::vector<Tensor> record_part(const std::vector<Tensor>& part);
  void record_update(const Tensor& own, const Tensor& rest, const std::vector<Tensor>& values);
  // Gradients at once, and bucket by bucket; own_ has the sums then. Give the rest.
  std::vector<float> take_gradients(const std::vector<Tensor>& part, const Callable<void()>& meanwhile);
  std::vector<float> stream_gradients(const std::vector<Tensor>& part, const Callable<void()>& meanwhile);
  Tensor stream_part(const std::vector<Tensor>& examples, bool last, const Callable<void()>& meanwhile);
  void add_part(std::vector<Tensor> lists);
  void add_list(size_t list, std::vector<float> values);
  std::vector<float> sum_of_parts(size_t list, std::vector<float> last);
  // A bucket whose sums, or parameters, are on their way.
  struct UnderWay {
    size_t bucket = 0;
    std::vector<float> values;
    distributed::Ticket arrival;
  };
  bool enough_under_way() const;
  UnderWay& put_under_way(size_t bucket, std::vector<float> values);
  void send(size_t bucket, std::vector<float> values);
  void take_sum();
  void take_sums();
  void take_parameters();
  int64_t begin_in_own(size_t bucket) const;
  float norm_of_own();
  Tensor norm_of(const Tensor& squares);
  Wishes average_rest(std::vector<float>& rest, const Wishes& mine);
  void gather();
  std::vector<float> bucket_of(size_t bucket) const;

  Optimizers& optimizers_;
  DeviceContext& device_;
  Replicas& replicas_;
  BatchParts& batch_;
  Parts parts_;
  ShardedGradients shared_;
  std::optional<ShardedParameters> parameters_;  // stage 3
  std::vector<float> own_;                       // gradients, then parameters, of the shards; never empty
  std::deque<UnderWay> under_way_;               // the one that left first in front
  bool streams_;                                 // gradients leave bucket by bucket
  std::vector<PartSum> sums_;                    // of the batch's parts, by list; none where it has one
  float norm_ = 0;                               // of all gradients, in parts
  std::function<std::vector<Tensor>(const std::vector<Tensor>& part)> compiled_part_;
  std::function<void(const Tensor& own, const Tensor& rest, const std::vector<Tensor>& values)> compiled_update_;
  std::vector<std::function<void(const Tensor& list)>> compiled_gathered_;  // by bucket
};

}  // namespace heddle::train
