// SharedGradients: what the ranks of a run average after each backward pass, as lists of numbers.
//
// Purpose: gradients, buffers of floats (the running statistics of batch norms, which each rank takes over its part of
// the batch) and a few scalars go to the host and come back together. Each rank's lists count by `weight`, its share of
// the batch's examples, so that sums over the ranks are means over the batch:
// g = sum_r (n_r / n) g_r for a loss that is a mean over examples. Gradients are packed from the last parameter to the
// first, as a backward pass ends with them, into lists that can be sent one by one while it goes on (Li et al. 2020,
// "PyTorch Distributed: experiences on accelerating data parallel training"); the last has all the rest. Ranks that
// round differently send parameters as well. Invariants: the lists are tensors that stay, made by the first pack() and
// of the same form ever after; each function records, within one compiled function. Errors: ValueError where other
// parameters have gradients than before. Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/nn/module.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

class SharedGradients {
 public:
  // Numbers at the end of the last list that are the host's: pack() makes them 0.
  static constexpr int64_t spare = Wishes::count;

  SharedGradients(nn::Module& model, double weight, DeviceContext& device)
      : model_(model), weight_(weight), device_(device) {}

  // The lists, f32 (n) each, become the gradients of the parameters that have one, floating buffers, and `scalars`, of
  // rank 0, each times the weight. Each list is wanted early (core/compile/compile.h).
  void pack(const std::vector<Tensor>& scalars);
  // Gradients and buffers become those of the lists; gives the scalars.
  std::vector<Tensor> unpack();
  // None before the first pack().
  const std::vector<Tensor>& lists() const { return lists_; }
  // So many numbers of a list are gradients; they come first.
  size_t gradients_in(size_t list) const;

  // f32 (n): parameters and floating buffers, as they are.
  Tensor pack_weights() const;
  void unpack_weights(const Tensor& list);

 private:
  void make_lists(size_t scalars);
  std::vector<size_t> with_gradient() const;  // the last one first
  void check_same_gradients() const;

  nn::Module& model_;
  double weight_;
  DeviceContext& device_;
  std::vector<std::vector<size_t>> parameters_;  // by list: places in parameters()
  std::vector<Tensor> lists_;
  size_t scalars_ = 0;
};

}  // namespace heddle::train
