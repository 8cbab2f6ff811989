// Samplers: which examples an epoch visits, and in which order.
//
// Invariants: the order depends only on the sampler and the epoch. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace heddle::data {

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::vector<int64_t> order(uint64_t epoch) const = 0;
  // Of every epoch.
  virtual int64_t size() const = 0;
};
using SamplerPtr = std::shared_ptr<const Sampler>;

SamplerPtr sequential(int64_t examples);
// Each once, in an order of its own for each epoch.
SamplerPtr shuffled(int64_t examples, uint64_t seed = 0);
// `draws` examples with replacement, with probability in proportion to their weights. ValueError for weights that are
// negative, not finite, or all 0.
SamplerPtr weighted(std::vector<double> weights, int64_t draws, uint64_t seed = 0);
// Every `shards`-th of another's, from number `shard` on: disjoint parts of one epoch for several processes, all of one
// length: the order is continued from its beginning where it does not divide evenly.
SamplerPtr sharded(SamplerPtr of, int64_t shard, int64_t shards);

}  // namespace heddle::data
