// Buckets: few lengths for many texts, so that few plans serve all batches and little of a batch is padding.
//
//   const auto buckets = data::choose_buckets(lengths, 6, 8);
//   for (const data::BucketBatch& b : data::bucketed_batches(lengths, buckets, {.batch = 16, .seed = 1}, epoch)) {
//     const auto tokens = data::pad_sequences(texts, b.items, b.length, pad);  // (b.items.size(), b.length)
//   }
//
// Invariants: every text is in the smallest bucket that takes it; orders depend only on seed, epoch and lengths. Thread
// safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::data {

// At most `count` ascending multiples of `multiple`, the last one no shorter than the longest text, such that padding
// every text to its bucket adds the fewest elements (an exact dynamic program over the distinct rounded lengths).
// ValueError for no lengths, negative ones, and count or multiple below 1.
std::vector<int64_t> choose_buckets(std::span<const int64_t> lengths, int64_t count, int64_t multiple = 1);

// Index of the smallest bucket of at least `length`; ValueError when there is none.
size_t bucket_of(std::span<const int64_t> buckets, int64_t length);

struct BucketBatch {
  int64_t length = 0;           // to pad to
  std::vector<uint32_t> items;  // indices into the texts
};

struct BucketOptions {
  int64_t batch = 32;
  uint64_t seed = 0;
  bool shuffle = true;     // texts within a bucket, and the order of the batches
  bool drop_last = false;  // leave out batches that a bucket does not fill: every batch then has one of as many shapes
                           // as there are buckets
};

// Batches of texts of one bucket each. ValueError for a batch below 1 or a text longer than the last bucket.
std::vector<BucketBatch> bucketed_batches(std::span<const int64_t> lengths, std::span<const int64_t> buckets,
                                          const BucketOptions& options, uint64_t epoch = 0);

// The chosen texts side by side, row-major (items, length), filled up with `pad`. ValueError for one that is longer, or
// an index out of range.
std::vector<int32_t> pad_sequences(std::span<const std::vector<int32_t>> texts, std::span<const uint32_t> items,
                                   int64_t length, int32_t pad);

}  // namespace heddle::data
