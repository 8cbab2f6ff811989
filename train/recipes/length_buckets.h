// Length buckets of rows with one example (or pair) each: batches of similar lengths, cut to the longest of them.
//
// Purpose: most of a short example's row is padding. Rows are grouped by what the loss needs of them, which is up to
// their last target that counts, into a few lengths (data/buckets.h), so that few plans serve all batches.
// Invariants: an epoch visits every example once, in an order of its seed and number alone; nothing that the loss looks
// at is cut. Errors: ValueError for less than one bucket. Thread safety: the parts are immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/data/loader.h"

namespace heddle::train {

struct LengthBuckets {
  std::vector<int64_t> lengths;  // of the buckets, ascending; the last is at most that of the rows
  data::SamplerPtr sampler;      // full batches of one bucket, in a random order; what fills none comes last, by length
  data::Collate collate;         // (B, ..., L) of examples (..., T): L is the bucket of the batch's longest
  double mean_length = 0;        // of the examples' buckets
};

struct LengthBucketOptions {
  int64_t count = 4;  // buckets at most
  int64_t batch = 4;  // examples in a batch
  uint64_t seed = 1;
};

// `rows`: examples (tokens (..., T), targets (..., T), ...), all i32; a target of data::ignored_target does not count.
LengthBuckets length_buckets(const data::DatasetPtr& rows, const LengthBucketOptions& options);

}  // namespace heddle::train
