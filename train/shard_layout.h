// ShardLayout: which elements of which parameters each rank owns, and in which buckets they travel.
//
// Purpose: ZeRO's stages 1 and 2 (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", section 5): the owner of an element keeps its optimizer's state, gets its gradient and sends its
// new value. Invariants: each element has one owner, the same on all ranks, which follows from sizes and number of
// ranks alone. A bucket is some parameters, whole, one behind the other, and its ranks' parts follow each other in it.
// Of an elementwise optimizer parts of a bucket differ by one element at most; otherwise each parameter has one owner,
// chosen so that ranks own about the same (the largest first, each to whom has least: Graham 1969, "Bounds on
// Multiprocessing Timing Anomalies"). Thread safety: plain value.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/nn/optimizer.h"

namespace heddle::train {

struct ShardLayoutOptions {
  int ranks = 1;
  bool elementwise = true;
  // A bucket ends with the parameter that makes it so large; 0: there is one bucket.
  int64_t bucket_elements = 0;
};

class ShardLayout {
 public:
  struct Bucket {
    std::vector<size_t> parameters;  // in the order in which they lie
    std::vector<int64_t> sizes;      // elements, by rank
    int64_t elements() const;
    int64_t begin_of(int rank) const;
  };

  // `elements`: of each parameter; those of 0 are in no bucket.
  ShardLayout(const std::vector<int64_t>& elements, const ShardLayoutOptions& options);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // What a rank owns, in the order of buckets and within each.
  std::vector<nn::Shard> shards_of(int rank) const;
  int64_t elements_of(int rank) const;

 private:
  std::vector<int64_t> elements_;
  std::vector<Bucket> buckets_;
};

}  // namespace heddle::train
