// SharedGradients: what the ranks of a run average after each backward pass, as one list of numbers.
//
// Purpose: gradients, buffers of floats (the running statistics of batch norms, which each rank takes over its part of
// the batch) and a few scalars go to the host and come back together. Each rank's list counts by `weight`, its share of
// the batch's examples, so that sums over the ranks are means over the batch:
// g = sum_r (n_r / n) g_r for a loss that is a mean over examples. Ranks that round differently send parameters as
// well. Invariants: each function records, within one compiled function; a list has the form that the latest pack gave
// it. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/nn/module.h"

namespace heddle::train {

class SharedGradients {
 public:
  SharedGradients(nn::Module& model, double weight) : model_(model), weight_(weight) {}

  // f32 (n): gradients of the parameters that have one, floating buffers, and `scalars`, of rank 0, each times the
  // weight.
  Tensor pack(const std::vector<Tensor>& scalars);
  // Gradients and buffers become those of the list; gives the scalars.
  std::vector<Tensor> unpack(const Tensor& list);

  // f32 (n): parameters and floating buffers, as they are.
  Tensor pack_weights() const;
  void unpack_weights(const Tensor& list);

 private:
  nn::Module& model_;
  double weight_;
  std::vector<size_t> with_gradient_;  // places in parameters()
  size_t scalars_ = 0;
};

}  // namespace heddle::train
