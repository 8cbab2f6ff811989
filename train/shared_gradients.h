// SharedGradients: what the ranks of a run average after each backward pass, as lists of numbers.
//
// Purpose: gradients, buffers of floats (the running statistics of batch norms, which each rank takes over its part of
// the batch) and a few scalars go to the host and come back together. Each rank's lists count by `weight`, its share of
// the batch's examples, so that sums over the ranks are means over the batch:
// g = sum_r (n_r / n) g_r for a loss that is a mean over examples. Gradients are packed from the last parameter to the
// first, as a backward pass ends with them, into lists that can be sent one by one while it goes on (Li et al. 2020,
// "PyTorch Distributed: experiences on accelerating data parallel training"); the last has all the rest. Two ranks of
// one host may have one list each, in memory that both see (train/neighbour_lists.h), which are added where they are
// read. Ranks that round differently send parameters as well. Invariants: the lists are tensors that stay, made by the
// first pack() and of the same form ever after; each function records, within one compiled function. Errors: ValueError
// where other parameters have gradients than before. Thread safety: none.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/nn/module.h"
#include "heddle/train/neighbour_lists.h"
#include "heddle/train/replicas.h"
#include "heddle/train/wishes.h"

namespace heddle::train {

class SharedGradients {
 public:
  // Numbers at the end of the last list that are the host's: pack() makes them 0.
  static constexpr int64_t spare = Wishes::count;

  // `parts`: of each rank's batch, a power of two; of one part ranks may be neighbours. All outlive it.
  SharedGradients(nn::Module& model, double weight, DeviceContext& device, Replicas& replicas, bool in_parts,
                  size_t parts);

  // The lists, f32 (n) each, become the gradients of the parameters that have one, floating buffers, and `scalars`, of
  // rank 0, each times the weight. Each list is wanted early (core/compile/compile.h), but those of neighbours, of
  // which and of parts, that lot's are written.
  void pack(const std::vector<Tensor>& scalars, size_t lot = 0);
  // Gradients and buffers become those of the lists, or the sum of the neighbours'; gives the scalars.
  std::vector<Tensor> unpack(size_t lot = 0);
  // Of parts, which are added by a balanced binary tree over their numbers: in which lot a part's lists are written,
  // and how many sums are complete behind it. Sums of 2^k parts take one lot, so there are few.
  static size_t lot_of(size_t part) { return static_cast<size_t>(std::popcount(part)); }
  static size_t sums_behind(size_t part) { return static_cast<size_t>(std::countr_one(part)); }
  // The lists of lot - count become their sum with those of the `count` lots behind, from the last one on; those of lot
  // 0 are wanted early.
  void add(size_t lot, size_t count);
  // Null: lists are summed by messages.
  NeighbourLists* neighbours() { return neighbours_.get(); }
  // None before the first pack(), and of neighbours.
  const std::vector<Tensor>& lists() const { return lots_.front(); }
  // So many numbers of a list are gradients; they come first.
  size_t gradients_in(size_t list) const;

  // f32 (n): parameters and floating buffers, as they are.
  Tensor pack_weights() const;
  void unpack_weights(const Tensor& list);

 private:
  void make_lists(size_t scalars);
  // `gradients`: numbers of all that are wanted; `rest`: those behind them.
  void divide(const std::vector<size_t>& wanted, const std::vector<Tensor>& parameters, int64_t gradients,
              int64_t rest);
  std::vector<size_t> with_gradient() const;  // the last one first
  std::vector<Tensor> parts_of(size_t list, const std::vector<Tensor>& scalars) const;
  void check_same_gradients() const;

  nn::Module& model_;
  double weight_;
  DeviceContext& device_;
  Replicas& replicas_;
  bool in_parts_;
  std::unique_ptr<NeighbourLists> neighbours_;
  std::vector<std::vector<size_t>> parameters_;  // by list: places in parameters()
  std::vector<std::vector<Tensor>> lots_;        // of lists
  size_t scalars_ = 0;
};

}  // namespace heddle::train
