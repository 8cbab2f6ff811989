// CompressedStep: an update that ranks take together, whose gradients travel compressed (train/compression/).
//
// Purpose: as SharedStep, with the rounds of a compression between the backward pass and the update. What it does not
// take, gradients of vectors most of all, travels as f32 with buffers, losses and wishes. Invariants: all ranks take
// the same updates; parameters are the same bits on all of them, since their devices are the same. Errors: those of
// what is recorded, of the device, and of distributed/errors.h; ValueError for ranks whose devices differ. Thread
// safety: none.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"
#include "heddle/train/compression/compression.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"
#include "heddle/train/shared_step.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

class CompressedStep {
 public:
  // All outlive the step.
  CompressedStep(nn::Module& model, const Config& config, DeviceContext& device, Replicas& replicas,
                 SharedStep::Parts parts);
  CompressedStep(const CompressedStep&) = delete;
  CompressedStep& operator=(const CompressedStep&) = delete;

  // One update by this rank's part of a batch; gives what any rank wishes. `meanwhile`, if any, is called when the
  // device has its work.
  Wishes submit(const std::vector<Tensor>& part, int64_t keeping, const Wishes& mine,
                const Callable<void()>& meanwhile);

 private:
  using Tensors = std::vector<Tensor>;
  Tensors record_part(const Tensors& part);
  void record_update(const Tensors& brought, int64_t keeping);
  void divide_gradients();
  Tensors rest_of(const Tensors& scalars) const;
  Tensors exchanged(Route route, const Tensors& lists);
  Tensor exchanged(Route route, const Tensor& list);

  nn::Module& model_;
  DeviceContext& device_;
  Replicas& replicas_;
  SharedStep::Parts parts_;
  double weight_;
  std::unique_ptr<Compression> compression_;
  std::vector<size_t> taken_, others_;  // places in parameters(), by whether the compression takes the gradient
  size_t scalars_ = 0;
  std::function<Tensors(const Tensors& part)> compiled_part_;  // the rest, and the lists of the first round
  std::vector<std::function<Tensors(const Tensors& brought)>> compiled_rounds_;  // behind the first
  std::function<void(const Tensors& brought, int64_t keeping)> compiled_update_;
};

}  // namespace heddle::train
