// ShardedGradients: what ranks that own shards (train/shard_layout.h) send each other, as lists of numbers.
//
// Purpose: gradients go in lists by bucket, in which the ranks' parts follow each other: each rank needs the sum of its
// own part. Floating buffers and a few scalars are one more list, of which all need the sums. Lists count by `weight`,
// the rank's share of the batch's examples, so that sums over the ranks are means over the batch, as in
// shared_gradients.h. Invariants: each function records, within one compiled function; lists are f32 (n). Thread
// safety: none.
#pragma once

#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/nn/module.h"
#include "heddle/train/shard_layout.h"

namespace heddle::train {

class ShardedGradients {
 public:
  ShardedGradients(nn::Module& model, ShardLayout layout, int rank, double weight);

  const ShardLayout& layout() const { return layout_; }
  const std::vector<nn::Shard>& shards() const { return shards_; }

  // Of each bucket the gradients, 0 where a parameter has none, and, last, buffers and `scalars` of rank 0.
  std::vector<Tensor> pack(const std::vector<Tensor>& scalars);
  // By shard, of the rank's parts of all buckets behind each other; undefined where the parameter has none.
  std::vector<Tensor> gradients(const Tensor& own) const;
  // Buffers become those of the last list; gives the scalars, and one for each of the `more` values behind them.
  std::vector<Tensor> unpack_rest(const Tensor& rest, size_t more) const;

  // By shard, of a list of the rank's elements: what the parameters have.
  std::vector<Tensor> elements(const Tensor& own) const;
  // The rank's parts of all buckets: `updated`, by shard, or, where it is undefined, what stands in `elements`, or in
  // the parameter where these are empty. (1) where it owns nothing.
  Tensor pack_shards(const std::vector<Tensor>& updated, const std::vector<Tensor>& elements = {}) const;
  // Parameters become those of a bucket's list.
  void unpack_bucket(size_t bucket, const Tensor& list) const;

 private:
  nn::Module& model_;
  ShardLayout layout_;
  std::vector<nn::Shard> shards_;
  double weight_;
  std::vector<bool> has_gradient_;  // by parameter, in the latest pack()
  size_t scalars_ = 0;
};

// Of a model's parameters: none of those that are frozen.
std::vector<int64_t> elements_to_own(const nn::Module& model);

}  // namespace heddle::train
