// SharedStep: an update that ranks take together: gradients of each rank's part of a batch, their mean, the update.
//
// Purpose: two compiled functions with the ranks' exchange between them. The first gives lists of gradients
// (shared_gradients.h), each sent to the others while the backward pass goes on with the next; the second updates when
// all have come back. Two ranks of one host sum nothing: the update of each reads the other's list where it lies.
// Invariants: all ranks take the same updates; sums are the same bits in every run. Errors: those
// of what is recorded, of the device, and of distributed/errors.h. Thread safety: none.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"
#include "heddle/train/batch_parts.h"
#include "heddle/train/config.h"
#include "heddle/train/hidden_time.h"
#include "heddle/train/host_list.h"
#include "heddle/train/replicas.h"
#include "heddle/train/shared_gradients.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

class SharedStep {
 public:
  // What is recorded of an update.
  struct Parts {
    std::function<std::vector<Tensor>(const std::vector<Tensor>& part)>
        gradients;  // backward(); what is averaged besides
    std::function<void()> zero_grad;
    // `norm` of all gradients, f32 of rank 0, where it is known.
    std::function<void(const std::vector<Tensor>& averages, int64_t keeping, const Tensor& norm)> update;
  };
  // All outlive the step.
  SharedStep(nn::Module& model, const Config& config, DeviceContext& device, Replicas& replicas, BatchParts& batch,
             Parts parts);
  SharedStep(const SharedStep&) = delete;
  SharedStep& operator=(const SharedStep&) = delete;

  // One update by this rank's part of a batch; gives what any rank wishes. `meanwhile`, if any, is called when the
  // device has its work.
  Wishes submit(const std::vector<Tensor>& part, int64_t keeping, const Wishes& mine,
                const Callable<void()>& meanwhile);
  // Parameters and floating buffers become the first rank's.
  void follow_first();

  // Of all updates so far but the first, in which ranks wait for each other's compilers.
  const HiddenTime& hidden_time() const { return hidden_; }

 private:
  Event end_of_lists();
  void take_part(const std::vector<Tensor>& examples, size_t part);
  Wishes exchange(const Wishes& mine);
  Wishes meet(const Wishes& mine);
  Tensor known_norm();
  float norm_of(const std::vector<std::span<float>>& lists) const;
  void record_part(const std::vector<Tensor>& part, size_t lot);

  DeviceContext& device_;
  Replicas& replicas_;
  BatchParts& batch_;
  Parts parts_;
  SharedGradients shared_;
  std::vector<HostList> on_host_;            // of shared_.lists()
  std::vector<std::optional<Event>> ready_;  // of this update, by list
  float norm_ = 0;                           // of the gradients, in parts
  HiddenTime hidden_;
  bool compiled_ = false;
  size_t lot_ = 0;  // of this update (NeighbourLists)
  std::function<void(const std::vector<Tensor>& part, size_t lot)> compiled_part_;
  std::function<void(size_t lot, size_t count)> compiled_add_;  // of parts
  std::function<void(int64_t keeping, size_t lot)> compiled_update_;
  std::function<Tensor()> compiled_weights_;
  std::function<void(const Tensor& weights)> compiled_follow_;
};

}  // namespace heddle::train
