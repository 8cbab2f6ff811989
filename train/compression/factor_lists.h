// FactorLists: thin factors of matrices as they travel between ranks, rounded.
//
// Purpose: PowerSGD's factors (low_rank.cpp), as bf16, whose sum is one all-reduce, or in 8 bits with a scale for each
// column, which every rank gets of every other: with 1 or 2 others fewer bytes than bf16's sum. Invariants: all ranks
// take the same sums. Errors: none of its own. Thread safety: recording is per thread.
#pragma once

#include <vector>

#include "heddle/train/compression/compression.h"

namespace heddle::train {

class FactorLists {
 public:
  explicit FactorLists(bool in_bytes) : in_bytes_(in_bytes) {}

  Route route() const { return in_bytes_ ? Route::gather : Route::sum; }

  struct Sent {
    std::vector<Tensor> lists;
    std::vector<Tensor> taken;  // f32: what all ranks take for these factors
  };
  // Of factors (count, length, rank).
  Sent send(const std::vector<Tensor>& factors) const;
  // f32: sums over the ranks of factors of these shapes.
  std::vector<Tensor> sums(const std::vector<Tensor>& brought, const std::vector<Shape>& shapes) const;

 private:
  bool in_bytes_;
};

}  // namespace heddle::train
